"""How often another subject's state, put in its place, brings the other's answer with it."""

import json
import random

from edit_harness import Choose, Request
from edit_harness.edits import UNEDITED
from edit_harness.model.hooks import first
from edit_harness_plugins.models.pocket import FILES


def request(record: dict) -> Request:
    rewrite = record["requested_rewrite"]
    new, true = rewrite["target_new"]["str"], rewrite["target_true"]["str"]
    return Request(rewrite["prompt"], rewrite["subject"], new, true)


def flip_share(pocket, layer: int, count: int) -> float:
    """Replace the state behind a block, at the subject's last token, by that of another subject."""
    by_relation: dict[str, list[Request]] = {}
    for record in json.loads((FILES / "counterfact.json").read_text()):
        relation = record["requested_rewrite"]["relation_id"]
        by_relation.setdefault(relation, []).append(request(record))
    draw = random.Random(0)
    flipped = []
    block, tokens = pocket.architecture.block(layer), pocket.tokens
    while len(flipped) < count:
        mine, other = draw.sample(draw.choice(list(by_relation.values())), 2)
        if mine.target_true == other.target_true:
            continue
        theirs = Request(mine.prompt, other.subject, other.target_true)
        kept = []
        with block.register_forward_hook(lambda m, a, out, kept=kept: kept.append(first(out))):
            pocket.answer([(UNEDITED, Choose(theirs.text, (other.target_true,)))])
        hidden, place = kept[0][0, tokens.subject_last(theirs)], tokens.subject_last(mine)

        def patch(module, args, output, hidden=hidden, place=place):
            changed = first(output).clone()
            changed[:, place] = hidden
            return changed

        query = Choose(mine.text, (other.target_true, mine.target_true))
        with block.register_forward_hook(patch):
            (answer,) = pocket.answer([(UNEDITED, query)])
        flipped.append(answer.nll(0) < answer.nll(1))
    return sum(flipped) / len(flipped)
