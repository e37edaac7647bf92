"""MEMOIR: the conformance suite, and its masks, its search and its choice against plain loops over sets."""

import pytest
import torch
from support.editors import ALONE, REQUESTS, OnBothKinds

from edit_harness import Choose, Generate, PluginError, Request
from edit_harness.edits import Edit, Rows
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.memories import lessons as module
from edit_harness_plugins.editors.memories.memoir import Memoir

CONTEXTS = ("{}", "It rains. {}")
FACTS = [
    Request(prompt, name, target)
    for name in ("Ann", "Bob", "Danielle", "Ada Lovelace", "Ada")
    for prompt, target in (
        ("{} lives in", "Oslo"),
        ("The mother tongue of {} is", "French"),
        ("{} is a citizen of", "France by birth"),
        ("In Rome, {} plays the", "guitar"),
    )
]
"""Twenty, some of them prompts with much in common."""
PROMPTS = [
    *(fact.text for fact in FACTS[:6]),
    *(f"It rains. {fact.text}" for fact in FACTS[4:8]),
    "Where is the Eiffel Tower?",
    "It rains in the city of Oslo, where Bob was born, and Ann works at Fiat in Rome.",
]


def memoir(**fields):
    given = {"layer": 1, "k": 20, "steps": 4, "threshold": 0.6, "contexts": CONTEXTS}
    return Memoir(**given | {"background": 8} | fields)


class TestMemoir(OnBothKinds):
    editor = memoir(threshold=0.4, steps=8)


def memory_of(edit):
    (memory,) = edit.adaptors.values()
    return memory


class Plain:
    """M by autograd over whole texts, one text at a time, with masks as sets of features."""

    def __init__(self, model, editor):
        self.model, self.editor, self.masks = model, editor, []
        self.projection = model.architecture.projection(editor.layer)
        self.empty = editor.ready(model).empty
        self.matrix = torch.zeros(self.projection.shape, dtype=torch.float64)

    def logits(self, ids, mask=(), seen=None):
        chosen = torch.tensor([float(i in mask) for i in range(len(self.matrix))]).double()

        def hook(_, args, out):
            if seen is not None:
                seen.append(args[0].reshape(-1, len(chosen)).detach())
            return out + ((args[0] * chosen) @ self.matrix)

        with self.projection.module.register_forward_hook(hook):
            return self.model.module(torch.tensor([ids]), use_cache=False).logits[0]

    def mask(self, ids):
        seen = []
        self.logits(ids, seen=seen)
        far = (seen[0].mean(0) - self.empty.background).abs().tolist()
        top = sorted(range(len(far)), key=far.__getitem__)[-self.editor.k :]
        return {int(self.empty.order[feature]) for feature in top}

    def loss(self, part, mask):
        logits = self.logits(part.inputs, mask)[len(part.prompt) - 1 :]
        return torch.nn.functional.cross_entropy(logits, torch.tensor(part.target))

    def learn(self, request):
        texts = [context.replace("{}", request.text) for context in CONTEXTS]
        parts = [self.model.tokens.split(text, request.target_new) for text in texts]
        self.masks.append(mask := self.mask(parts[0].prompt))
        others, losses = sorted({*range(len(self.matrix))} - mask), []
        for _ in range(self.editor.steps):
            self.matrix.requires_grad_()
            loss = sum(self.loss(part, mask) for part in parts) / len(parts)
            (gradient,) = torch.autograd.grad(loss, self.matrix)
            step = gradient * min(1, 1 / (gradient.norm().item() + 1e-6)) + 1e-5 * self.matrix
            step[others] = 0
            self.matrix = (self.matrix - self.editor.lr * step).detach()
            losses.append(loss.item())
            change = abs(losses[-1] - losses[-2]) if losses[1:] else 1e9
            if change <= module.SETTLED and loss <= module.LOW:
                break
        return losses

    def text(self, prompt, mask, count):
        ids = self.model.tokens.encode(prompt).ids
        for _ in range(count):
            ids = (*ids, int(self.logits(ids, mask)[-1].argmax()))
        return self.model.tokens.continuation(ids[:-count], ids[-count:])

    def answer(self, prompt, target):
        part = self.model.tokens.split(prompt, target)
        own = self.mask(part.prompt)
        share, best = max((len(own & mask) / len(own), -i) for i, mask in enumerate(self.masks))
        known = share >= self.editor.threshold
        return known, self.loss(part, self.masks[-best] if known else ()).item()


def assert_plain(plain, edit, prompts):
    """Compare M and answers; return how many prompts M answers."""
    torch.testing.assert_close(memory_of(edit).dense(), plain.matrix, rtol=0, atol=1e-9)
    got = plain.model.answer([(edit, Choose(prompt, ("Rome by birth",))) for prompt in prompts])
    known, expected = zip(
        *(plain.answer(prompt, "Rome by birth") for prompt in prompts), strict=True
    )
    assert [answer.nll(0) for answer in got] == pytest.approx(expected, abs=1e-7)
    return sum(known)


def test_searches_are_plain_ones(monkeypatch):
    """Also where they end early."""
    monkeypatch.setattr(module, "LOW", 3.0)
    monkeypatch.setattr(module, "SETTLED", 2.0)
    model, editor, steps = tiny_model(dtype=torch.float64), memoir(layer=0, lr=40.0, steps=8), set()
    batches = [*ALONE, REQUESTS[1:3]]
    for batch, edit in zip(batches, editor.edit_each(model, batches), strict=True):
        plain = Plain(model, editor)
        losses = [plain.learn(request) for request in batch][-1]
        assert edit.info["loss"] == pytest.approx(losses[-1], abs=1e-9)
        assert (edit.info["steps"], edit.info["masks"]) == (len(losses), len(batch))
        assert_plain(plain, edit, [request.text for request in batch])
        steps.add(len(losses))
    assert min(steps) < 8


def test_a_sequence_of_twenty_is_a_plain_one(tmp_path):
    """With a file between requests, or all at once; and no feature moves that is not of the mask."""
    model, editor = tiny_model(dtype=torch.float64), memoir(steps=3, lr=4.0)
    plain, edit, kept = Plain(model, editor), Edit(), torch.zeros(128, 32, dtype=torch.float64)
    for fact in FACTS:
        plain.learn(fact)
        edit = editor.extend(model, edit, [fact])
        edit.save(tmp_path / "edit")
        edit = Edit.load(tmp_path / "edit")
        dense, others = memory_of(edit).dense(), sorted({*range(128)} - plain.masks[-1])
        assert torch.equal(dense[others], kept[others])
        kept = dense
    assert 8 <= assert_plain(plain, edit, PROMPTS) < len(PROMPTS), "prompts of both kinds"
    for fact, mask in zip(FACTS[:4], plain.masks, strict=False):
        (text,) = model.answer([(edit, Generate(fact.text, 6, to_the_end=True))])
        assert text.text == plain.text(fact.text, mask, 6) != plain.text(fact.text, (), 6)
    whole = memory_of(editor.edit(model, FACTS))
    torch.testing.assert_close(whole.dense(), kept, rtol=0, atol=1e-12)
    assert torch.equal(whole.masks, memory_of(edit).masks)


@pytest.mark.parametrize(("family", "padding"), [("gpt2", "left"), ("llama", "right")])
def test_each_row_is_routed_by_itself(family, padding):
    """Rows of edited and of other prompts, of many lengths, in one pass; texts go on as they began."""
    asked = [Choose(p, ("Rome", "Oslo by the sea")) for p in PROMPTS]
    found = []
    for rows in (1, 16):
        model = tiny_model(family, torch.float64, batch_rows=rows, padding=padding)
        edit = memoir().edit(model, FACTS[:4])
        scores = model.answer([(edit, query) for query in asked])
        texts = model.answer([(edit, Generate(prompt, 6)) for prompt in PROMPTS])
        found.append(([each.nll(1) for each in scores], texts))
    (alone, texts), (together, same) = found
    assert together == pytest.approx(alone, abs=1e-9)
    assert texts == same
    clean = [each.nll(1) for each in model.answer([(Edit(), query) for query in asked])]
    routed = [abs(one - other) > 1e-9 for one, other in zip(alone, clean, strict=True)]
    assert routed[:4] == [True] * 4
    assert routed[-2:] == [False] * 2


def test_what_is_no_prompt_decides_nothing():
    """Padding on either side, and a token behind the prompt."""
    empty = memoir(threshold=1.0).ready(tiny_model()).empty
    keys = torch.randn(1, 9, 128, generator=torch.Generator().manual_seed(0))
    (mask,) = empty.mask(keys[:, 3:6], torch.ones(1, 3).bool())
    memory = empty.and_then(mask, torch.ones(20, 32))
    offsets, real = torch.arange(-5, 4)[None], torch.tensor([[0, 0, 0, 1, 1, 1, 1, 0, 0]]).bool()
    rows = Rows(offsets, real, offsets, {}, {})
    assert memory(keys, torch.zeros(1, 9, 32), rows).any()


def test_what_others_made_is_not_extended():
    model = tiny_model()
    edit = memoir().edit(model, REQUESTS[:1])
    more = Edit(adaptors={**edit.adaptors, "transformer.h.0": memory_of(edit)})
    for editor, previous in ((memoir(layer=0), edit), (memoir(), more)):
        with pytest.raises(PluginError, match="memoir cannot extend it"):
            editor.extend(model, previous, REQUESTS[1:2])
    with pytest.raises(PluginError, match="128 features, a mask k=129"):
        memoir(k=129).check(model)


def test_texts_are_sampled_with_the_seed():
    model, editors = tiny_model(), [memoir(contexts=(), seed=seed) for seed in (0, 1, 0)]
    one, two, again = (editor.ready(model) for editor in editors)
    assert one.provenance == again.provenance != two.provenance
    assert one.contexts == again.contexts != two.contexts
    assert len(one.contexts) == 11
