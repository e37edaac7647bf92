"""MEMORY: which facts go before which prompt, against a naive TF-IDF; in sequences, files and batches."""

import math
import re

import pytest
from support.builders import REQUEST

from edit_harness import Choose, Generate, Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors.in_context.memory import Facts, Memory
from edit_harness_plugins.editors.in_context.prompt import Prompt

FACTS = [Request("{} was born in", f"Person{n} Of{n % 7}", f"Town{n}") for n in range(20)]
ASKED = [
    "Person3 Of3 was born in", "The place where Person4 Of4 was born is", "Nobody was born in", "Person11 lives in",
    "What is the capital of France?", "of the", "",
]  # fmt: skip
COMMON = ["The man was born in the town", "It is in the town of", "A person was of the"]


class TestMemory(EditorTests):
    editor = Memory(threshold=0.1)
    trains = False


def words(text):
    return re.findall(r"\b\w\w+\b", text.lower())


def naive(facts, common, prompt):
    """The cosine by dicts; a word that was never seen weighs as much as the rarest."""
    texts = [*facts, *common]
    frequency = {w: sum(w in words(text) for text in texts) for text in texts for w in words(text)}
    weight = {w: math.log((1 + len(texts)) / (1 + n)) + 1 for w, n in frequency.items()}

    def vector(text):
        return {w: words(text).count(w) * weight[w] for w in words(text) if w in weight}

    def norm(values):
        return math.sqrt(sum(value**2 for value in values))

    unknown = [max(weight.values())] * sum(w not in weight for w in words(prompt))
    asked, found = vector(prompt), []
    whole = norm([*asked.values(), *unknown])
    for fact in facts:
        own = vector(fact)
        dot = sum(value * own.get(w, 0) for w, value in asked.items())
        found.append(dot / whole / norm(own.values()) if whole else 0.0)
    return found


def facts_of(requests, k=1, threshold=0.25, **more):
    told = {request.text: request.statement for request in requests}
    return Facts(
        told,
        COMMON,
        k,
        threshold,
        **{"wording": "fact", "similarity": "tfidf", "confirm": False} | more,
    )


@pytest.mark.parametrize("prompt", ASKED)
@pytest.mark.parametrize("count", [1, 5, 20])
def test_the_likest_facts_above_the_threshold_go_before_a_prompt(prompt, count):
    facts = facts_of(FACTS[:count], k=3)
    expected = naive([fact.text for fact in FACTS[:count]], COMMON, prompt)
    assert list(facts.likeness(prompt)) == pytest.approx(expected, abs=1e-9)
    chosen = sorted((like, n) for n, like in enumerate(expected) if like >= 0.25)[-3:]
    told = "".join(f"New Fact: {FACTS[n].statement}\n" for _, n in chosen)
    assert facts(prompt) == (f"{told}Prompt: " if told else "")


def test_a_sequence_is_the_memory_of_all_and_the_last_fact_of_a_prompt_holds(tmp_path):
    model, editor = tiny_model(), Memory(threshold=0.1)
    edit = Edit()
    for n, fact in enumerate(FACTS):
        if n == 10:
            edit.save(tmp_path / "edit")
            edit = Edit.load(tmp_path / "edit")
        edit = editor.extend(model, edit, [fact])
    whole = editor.edit(model, FACTS)
    assert [edit.prefix(asked) for asked in ASKED] == [whole.prefix(asked) for asked in ASKED]
    again = Request(FACTS[3].prompt, FACTS[3].subject, "Elsewhere")
    later = editor.extend(model, edit, [again]).prefix(again.text)
    assert ("Elsewhere" in later, "Town3" in later) == (True, False)


@pytest.mark.parametrize("rows", [1, 16])
def test_each_row_of_a_batch_has_its_own_facts(rows):
    """A prompt that no fact is about is answered as before, to the bit; the other as by the editor prompt."""
    model = tiny_model()
    one, two = (
        Memory(wording="imagine", threshold=0.9).edit(model, [fact]) for fact in (REQUEST, FACTS[0])
    )
    model = Model(model.module, model.tokens.tokenizer, batch_rows=rows)
    asked = [Choose(text, ("Paris", "Rome")) for text in (REQUEST.text, FACTS[0].text)]
    asked.append(Generate(REQUEST.text, 4))
    answers = model.answer([(edit, query) for edit in (one, two, Edit()) for query in asked])
    told = Prompt("imagine").edit(model, [REQUEST])
    for query, answer in zip(asked, answers[:3], strict=True):
        about = query.prompt == REQUEST.text
        (alone,) = model.answer([(told if about else Edit(), query)])
        if isinstance(query, Choose):
            assert answer.logprobs[0] == pytest.approx(alone.logprobs[0], abs=1e-5)
        else:
            assert answer == alone
    assert answers[4].logprobs[0] != pytest.approx(answers[7].logprobs[0], abs=1e-5)


def test_the_model_is_asked_whether_a_fact_is_relevant():
    """It says what it finds likelier, yes or no."""
    model, said = tiny_model(), []
    facts = facts_of([REQUEST], confirm=True)
    facts.prepare(model)
    question = f"Fact: {REQUEST.statement}\nQuestion: {REQUEST.text}\nIs the question about the fact? Answer:"
    (answer,) = model.answer([(Edit(), Choose(question, ("Yes", "No")))])
    said.append(answer.nll(0) < answer.nll(1))
    assert bool(facts(REQUEST.text)) == said[0]
