"""The suites that the package brings along; a chain against a naive one, with scripted replies."""

from dataclasses import replace
from itertools import product
from unittest.mock import MagicMock

import pytest
from edit_harness import Choose, Request, Scores, Text
from edit_harness.edits import Edit
from edit_harness.testing import PluginTests

import edit_harness_mello
from edit_harness_mello.conformance import *
from edit_harness_mello.editor import OWN, Mello

FACTS = [
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


def answer(questions):
    ((edit, query),) = questions
    shots, _, text = query.prompt.rpartition("\n\n")
    assert edit.changes_nothing and shots == OWN.read_text("utf-8").strip()
    *_, now = lines = text.split("\n")
    told = {"Retrieved fact": "", **dict(line.split(": ") for line in lines if ": " in line)}
    target, last = told["Retrieved fact"].split(" ")[-1], told.get("Intermediate answer")
    if isinstance(query, Choose):
        return [Scores((), ((-1.0,), (-1.5 + (target == told["Generated answer"]),)), ())]
    if now:
        known = now == "Generated answer:" and KNOWN.get(told["Subquestion"], "unknown")
        return [Text(f" {known or target}")]
    left = PARTS[text.count("\nInter") :] if told["Question"] == QUESTION else []
    return [Text(f"Subquestion: {left[0].format(last)}" if left else f"Final answer: {last}")]


def chain(prefix, prompt=QUESTION):
    prefix.prepare(model := MagicMock(**{"tokens.limit": None, "answer.side_effect": answer}))
    assert prefix(prompt) == prefix(prompt)
    return prefix(prompt), model.answer.call_count


@pytest.mark.parametrize(("hops", "confirm"), [*product(range(1, 5), (True, False))])
@pytest.mark.parametrize("facts", [FACTS, FACTS[:2], FACTS[1:]], ids=["all", "two", "three"])
def test_a_chain_is_the_naive_one(facts, hops, confirm):
    text, answer = f"Question: {QUESTION}\n", ""
    for part in (each.format(answer) for each in PARTS[:hops]):
        answer = KNOWN.get(part, "unknown")
        text += f"Subquestion: {part}\nGenerated answer: {answer}\n"
        for fact in (each for each in facts if each.subject in part):
            said = "yes" if not confirm or fact.target_new != answer else "no"
            text += f"Retrieved fact: {fact.statement}\nContradiction: {said}\n"
            answer = fact.target_new
        text += f"Intermediate answer: {answer}\n"
    text += f"Final answer: {answer}\n" * (hops > len(PARTS))
    assert chain(Mello(hops, 0.6, confirm).edit(None, facts).prefix)[0] == text


def test_what_is_not_taken_apart_is_its_own_part_if_a_fact_is_near():
    asked, prefix = "What is the capital of Peru?", Mello().edit(None, FACTS).prefix
    assert f"\nSubquestion: {asked}\n" in chain(prefix, f"Q: Who? A: I\nQ: {asked} A:")[0]
    assert chain(prefix, "Penguins like fish") == ("", 1)


def test_a_file_keeps_it_and_the_last_fact_of_a_prompt_holds(tmp_path):
    editor, later = Mello(threshold=0.6), replace(FACTS[2], target_new="Bonn")
    (edit := editor.edit(None, FACTS)).save(tmp_path / "edit")
    for each in (edit, Edit.load(tmp_path / "edit")):
        text, asked = chain(editor.extend(None, each, [later]).prefix)
        assert ("Intermediate answer: Bonn" in text, asked) == (True, 11)
