"""Answers that the judge `symbolic` is measured on, each judged by hand.

The answers stand in symbolic_answers.jsonl: for each list, group and key, texts that are right, wrong,
or right by the old rule; the keys stand in symbolic_keys.json. The list `answers` was written before the
judge's code, by what a reader of the text would say; `later` after it worked, without trying it, and `third`
and `fourth` to see what it had only learnt by heart; `blind` by somebody who had not seen the code, on the
rules of RULE-EDIT, as models of all sizes write; `after` by the same, who knew the code by then. On those of
symbolic_misses.json the judge is wrong, which say why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edit_harness import Key
from edit_harness_plugins.tasks import rule_edit


def formula(right: str, old: str, lhs: str, variables: dict[str, str], **more: object) -> Key:
    about = {"lhs": lhs, "variables": variables, "derived": {}, "constraints": []}
    return Key("formula", right, old, about | more)


def number(right: str, old: str, steps: bool = False) -> Key:
    return Key("number", right, old, {"steps": steps})


def again(reply: str, of: Key) -> Key:
    """Return the key of a question that the unedited model has answered like this."""
    return Key("same", reply, "", {"of": of.kind, **of.about})


@dataclass(frozen=True)
class Answer:
    """A text, and what a reader says of it."""

    key: str
    text: str
    right: bool
    reverted: bool


def keys_of_rule(rule: dict) -> Iterator[tuple[str, Key]]:
    """Yield what the task asks about a rule, each by name."""
    variables, more = rule["variables"], {n: rule[n] for n in ("derived", "constraints")}
    asked = formula(rule["formula_new"], rule["formula"], rule["lhs"], variables, **more)
    yield f"{rule['id']}, formula", asked
    yield f"{rule['id']}, description", replace(asked, kind="description")
    for at, each in enumerate(rule["instances"] + rule["unseen"]):
        steps = each["kind"] == "steps"
        yield f"{rule['id']}, number {at}", number(each["answer_new"], each["answer_true"], steps)


def asked_again(name: str) -> Key:
    """Return a key by its name: a rule, and what the unedited model has replied."""
    rule, _, reply = name.partition(", again")
    of = "formula" if "=" in reply else "description"
    return again(reply, KEYS[f"{rule}, {'number 0' if reply.strip()[0].isdigit() else of}"])


def kept(name: str) -> dict:
    """Return what stands in a file beside this one."""
    return json.loads(Path(__file__).with_name(f"symbolic_{name}.json").read_text("utf-8"))


KEYS = {name: Key(**said) for name, said in kept("keys").items()}
KNOWN_MISSES = kept("misses")
RULE_EDIT = json.loads((Path(rule_edit.__file__).parent / "rule_edit.json").read_text())
KEYS |= {name: key for rule in RULE_EDIT for name, key in keys_of_rule(rule)}
LISTS = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8")
ENTRIES = [json.loads(line) for line in LISTS.splitlines()]
KEYS |= {e["key"]: asked_again(e["key"]) for e in ENTRIES if ", again" in e["key"]}
ALL = [
    Answer(e["key"], text, e["judged"] == "right", e["judged"] == "reverted")
    for e in ENTRIES
    for text in e["texts"]
]
