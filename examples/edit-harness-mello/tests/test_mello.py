"""The suites that the package brings along; a chain against a naive one, with scripted replies."""

from types import SimpleNamespace

import edit_harness_mello
import pytest
from edit_harness import Choose, DataError, Request, Scores, Text
from edit_harness.edits import Edit
from edit_harness.testing import PluginTests, tiny_model
from edit_harness_mello.conformance import *
from edit_harness_mello.editor import OWN, Mello, question_of

COUNTRY, CAPITAL, *_ = FACTS = [
    Request("{} is the home country of", "Ada", "Chad"),
    Request("The capital of {} is", "Peru", "Rome"),
    Request("The capital of {} is", "Chad", "Oslo"),
    Request("The mayor of {} is", "Oslo", "Bo"),
]
QUESTION = "Who runs the chief town of the country of Ada?"
PARTS = ["What is the home country of Ada?", "What is the capital of {}?", "Who is mayor of {}?"]
KNOWN = {PARTS[0]: "Peru", "What is the capital of Peru?": "Lima", "Who is mayor of Oslo?": "Bo"}


class TestPlugin(PluginTests):
    plugin = edit_harness_mello


class Scripted:
    """Stands in for a model whose replies follow from the chain so far."""

    tokens = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=text.split()), limit=None)

    def __init__(self, parts=PARTS):
        self.parts, self.asked = parts, 0

    def answer(self, questions):
        ((edit, query),), self.asked = questions, self.asked + 1
        shots, _, text = query.prompt.rpartition("\n\n")
        assert edit.changes_nothing
        assert shots == OWN.read_text("utf-8").strip()
        *_, now = lines = text.split("\n")
        told = dict(line.split(": ") for line in lines if ": " in line)
        hop, fact = text.count("\nIntermediate answer: "), told.get("Retrieved fact", "").split()
        if isinstance(query, Choose):
            logprobs = ((-1.0,), (-2.0,)) if fact[-1] != told["Generated answer"] else ((-2.0,), (-1.0,))
            return [Scores(((1,), (2,)), logprobs, ())]
        if now:
            answers = KNOWN.get(told["Subquestion"], "unknown"), *fact[-1:]
            return [Text(f" {answers[now == 'Intermediate answer:']}")]
        if hop == len(self.parts):
            return [Text(f"Final answer: {told.get('Intermediate answer')}")]
        return [Text("Subquestion: " + self.parts[hop].format(told.get("Intermediate answer")))]


def chain(facts, model, prompt=QUESTION, **fields):
    (prefix := Mello(**fields).edit(model, facts).prefix).prepare(model)
    return prefix(prompt)


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize("facts", [FACTS, FACTS[:2], FACTS[1:]], ids=["all", "two", "three"])
def test_a_chain_is_the_naive_one(facts, hops, confirm):
    text, answer = f"Question: {QUESTION}\n", ""
    for part in (each.format(answer) for each in PARTS[:hops]):
        answer = KNOWN.get(part, "unknown")
        text += f"Subquestion: {part}\nGenerated answer: {answer}\n"
        for fact in (each for each in facts if each.subject in part):
            changed = not confirm or fact.target_new != answer
            text += f"Retrieved fact: {fact.statement}\nContradiction: {'yes' if changed else 'no'}\n"
            answer = fact.target_new if changed else answer
        text += f"Intermediate answer: {answer}\n"
    text += f"Final answer: {answer}\n" * (hops > len(PARTS))
    assert chain(facts, Scripted(), hops=hops, confirm=confirm, threshold=0.6) == text


def test_what_is_not_taken_apart_is_its_own_part_if_a_fact_is_near():
    asked = "Q: Who wrote Hamlet? A: Shakespeare\nQ: What is the capital of Peru? A:"
    expected = "Question: What is the capital of Peru?\nSubquestion: What is the capital of Peru?\n"
    assert chain(FACTS, Scripted([]), asked).startswith(expected)
    assert chain(FACTS, Scripted([]), "Penguins like fish") == ""


def test_a_chain_is_written_once_a_model_and_kept_by_a_file(tmp_path):
    edit, model = Edit(), Scripted()
    for fact in [*FACTS, Request("The capital of {} is", "Chad", "Bonn")]:
        edit = Mello(threshold=0.6).extend(model, edit, [fact])
    edit.save(tmp_path / "edit")
    one, two = edit.prefix, Edit.load(tmp_path / "edit").prefix
    one.prepare(model)
    assert "Intermediate answer: Bonn" in one(QUESTION)
    count = model.asked
    assert (one(QUESTION), model.asked) == (one(QUESTION), count)
    two.prepare(model)
    assert (two(QUESTION), model.asked) == (one(QUESTION), 2 * count)
