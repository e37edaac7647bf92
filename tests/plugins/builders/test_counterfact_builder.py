"""Records of one's own facts, in CounterFact's schema."""

import json
import re
from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.own_facts import NAMES, OBJECTS, TEMPLATES, TRIPLES, lines, stored

import edit_harness as eh
from edit_harness import DataError, UsageError
from edit_harness.testing import tiny_model
from edit_harness_plugins.builders import templates
from edit_harness_plugins.builders.counterfact import CounterFact, spread
from edit_harness_plugins.builders.fillers import BUILT_IN, Fillers, read
from edit_harness_plugins.builders.triples import Fact, FactTable
from edit_harness_plugins.commands.authoring import Material

OWNERS = {(relation, o): {s for s, r, x in TRIPLES if (r, x) == (relation, o)}
          for relation, objects in OBJECTS.items() for o in objects}  # fmt: skip


@pytest.fixture
def material(tmp_path) -> Material:
    return Material(
        lines(tmp_path / "facts.jsonl", TRIPLES), stored(tmp_path / "words.json", TEMPLATES)
    )


def built(material: Material, told=None, **settings) -> list[dict]:
    out = material.triples.with_name("made.json")
    CounterFact(**settings).build(material, out, (told if told is not None else []).append)
    return json.loads(out.read_text(encoding="utf-8"))


def subject_of(prompt: str) -> str:
    (name,) = (name for name in NAMES if name in prompt)
    return name


def test_every_fact_becomes_a_record_that_is_true_to_the_facts(material):
    records = built(material)
    assert [record["case_id"] for record in records] == list(range(len(TRIPLES)))
    edited = set()
    for record in records:
        rewrite = record["requested_rewrite"]
        subject, relation = rewrite["subject"], rewrite["relation_id"]
        true, new = rewrite["target_true"]["str"], rewrite["target_new"]["str"]
        edited.add((subject, relation, true))
        words = TEMPLATES[relation]
        assert rewrite["prompt"] in words["training"]
        assert new != true
        assert new in OBJECTS[relation]
        for prompt in record["paraphrase_prompts"]:
            filler, template = prompt.split(". ", 1)
            assert template.replace(subject, "{}") in words["held_out"]
            assert subject not in filler
        assert len(set(record["paraphrase_prompts"])) == 2
        neighbours = {subject_of(prompt) for prompt in record["neighborhood_prompts"]}
        assert neighbours == OWNERS[relation, true] - {subject}
        assert {subject_of(prompt) for prompt in record["attribute_prompts"]} == OWNERS[
            relation, new
        ]
        for prompt in (*record["neighborhood_prompts"], *record["attribute_prompts"]):
            template = prompt.replace(subject_of(prompt), "{}")
            assert template in set(words["training"]) - {rewrite["prompt"]}
        generations = {prompt.replace(subject, "{}") for prompt in record["generation_prompts"]}
        assert generations == set(words["training"])
    assert edited == set(TRIPLES)


def test_ids_are_the_users_or_stable_made_up_ones(material):
    rows = [{"subject": s, "relation": r, "object": o, "object_id": {"harp": "Q47369"}.get(o, "")}
            for s, r, o in TRIPLES]  # fmt: skip
    lines(material.triples, rows)
    ids = defaultdict(set)
    for record in built(material):
        for part in ("target_true", "target_new"):
            target = record["requested_rewrite"][part]
            ids[target["str"]].add(target["id"])
    assert ids["harp"] == {"Q47369"}
    assert len({found for (found,) in ids.values()}) == len(ids) == 7
    assert all(found.startswith("W") for name, (found,) in ids.items() if name != "harp")


def test_only_what_a_model_knows_is_written_and_asked(material):
    """Bob's facts and one template are unknown; neither is in any record."""
    asked = []

    def knows(items):
        asked.extend(items)
        return ["Bob" not in prompt and "passport" not in prompt for prompt, _ in items]

    records = built(Material(material.triples, material.templates, knows))
    expected = {(template.replace("{}", s, 1), o) for s, r, o in TRIPLES
                for template in TEMPLATES[r]["training"]}  # fmt: skip
    assert set(asked) == expected
    subjects = {record["requested_rewrite"]["subject"] for record in records}
    assert subjects == set(NAMES) - {"Bob"}
    for record in records:
        rewrite = record["requested_rewrite"]
        text = rewrite["prompt"].replace("{}", rewrite["subject"], 1)
        for prompt in (text, *record["neighborhood_prompts"], *record["attribute_prompts"]):
            assert "Bob" not in prompt
            assert "passport" not in prompt


def test_settings_limit_what_is_made(material):
    assert len(built(material, size=7)) == 7
    relations = [r["requested_rewrite"]["relation_id"] for r in built(material, size=7)]
    assert sorted(relations.count(name) for name in TEMPLATES) == [2, 2, 3]
    assert built(material, seed=1) != built(material, seed=2)
    told = []
    few = built(material, told, fewest_neighbours=3)
    assert {r["requested_rewrite"]["relation_id"] for r in few} == {"P27", "P1303", "P641"}
    assert all(len(record["neighborhood_prompts"]) >= 3 for record in few)
    fewer = built(material, told, fewest_neighbours=4)
    assert {r["requested_rewrite"]["relation_id"] for r in fewer} == {"P27", "P1303"}
    assert any("none that so many subjects share" in line for line in told)


def test_sentences_of_ones_own_stand_before_paraphrases(material, tmp_path):
    (tmp_path / "own.txt").write_text("It rained.\n", encoding="utf-8")
    for record in built(material, fillers=str(tmp_path / "own.txt")):
        assert all(prompt.startswith("It rained. ") for prompt in record["paraphrase_prompts"])


def test_templates_can_be_withheld(material):
    words = json.loads(material.templates.read_text())
    for relation in words.values():
        relation["training"] += [f"{{}} {i}" for i in range(2)]
    stored(material.templates, words)
    for record in built(material, withhold=True):
        relation = templates.of(record["requested_rewrite"]["relation_id"],
                                words[record["requested_rewrite"]["relation_id"]])  # fmt: skip
        subject = record["requested_rewrite"]["subject"]
        assert record["requested_rewrite"]["prompt"] in relation.seen_templates(subject)
        for prompt in record["neighborhood_prompts"]:
            other = subject_of(prompt)
            assert prompt.replace(other, "{}") in relation.seen_templates(other)


def test_what_is_left_out_is_said(material):
    extra = [("Ada", "P27", "Sylvania"), ("Zoe", "P641", "golf"), ("Ada", "P1", "x"),
             ("Bob", "P9", "one"), ("Ada", "P9", "one")]  # fmt: skip
    lines(material.triples, [*TRIPLES, *extra])
    stored(material.templates, TEMPLATES | {"P9": TEMPLATES["P27"], "P8": TEMPLATES["P27"]})
    told = []
    records = built(material, told)
    assert "Ada P27" in next(line for line in told if "several objects" in line)
    assert any(line.startswith("left out the facts of P1:") for line in told)
    assert any("its relation has one object" in line for line in told)
    for record in records:
        rewrite = record["requested_rewrite"]
        assert rewrite["relation_id"] in OBJECTS
        if rewrite["relation_id"] == "P27":
            texts = (*record["neighborhood_prompts"], *record["attribute_prompts"])
            assert "Ada" not in {rewrite["subject"], *map(subject_of, texts)}
        assert rewrite["subject"] != "Zoe", "golf has no neighbours"


def test_the_facts_that_are_left_out_are_counted_by_reason(material):
    """Every fact of the file is in a record, or in a line that says why it is in none."""
    lines(material.triples, [*TRIPLES, ("Zoe", "P641", "golf"), ("Ada", "P1", "x")])
    told = []
    known = Material(material.triples, material.templates,
                     lambda asked: ["Bob" not in prompt for prompt, _ in asked])  # fmt: skip
    records = built(known, told, size=20)
    counts = [int(found[1]) for line in told if (found := re.search(r"(\d+) facts?\b", line))
              and line.startswith("left out")]  # fmt: skip
    assert "left out 3 facts: the model does not know them" in told
    assert "left out 1 fact: fewer than 1 neighbour that the model knows" in told
    assert "left out 7 facts: size=20 takes no more" in told
    assert told[0].endswith("there are no templates for them (1 fact)")
    assert len(records) + sum(counts) == len(TRIPLES) + 2
    assert told[-1] == "made     20 records of 31 facts"


def test_a_file_that_is_not_there_is_named_with_its_field(material):
    with pytest.raises(DataError, match=r"fillers: there is no file 'nope.json'"):
        built(material, fillers="nope.json")


def test_what_nothing_can_be_made_of_is_refused(material):
    with pytest.raises(UsageError, match="words"):
        built(Material(material.triples))
    with pytest.raises(DataError, match="no record can be made"):
        built(Material(material.triples, material.templates, lambda asked: [False] * len(asked)))
    assert not material.triples.with_name("made.json").exists()
    stored(material.templates, {"P27": {"training": ["{} is"], "held_out": ["{} was"]}})
    with pytest.raises(
        DataError, match=r"P27 has 1 of training, and needs 2.*P27 has 1 of held_out"
    ):
        built(material)
    stored(material.templates, TEMPLATES)
    with pytest.raises(DataError, match="P641 has 2 of training, and needs 4"):
        built(material, withhold=True)
    stored(material.templates, {"P2": TEMPLATES["P27"]})
    with pytest.raises(DataError, match="no fact has one of the relations P2") as caught:
        built(material)
    assert "P1303, P27, P641" in caught.value.remedy


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["P27", "P641"])),
                    st.sampled_from(["x", "y", "z"]), min_size=1),
    st.integers(1, 3),
    st.integers(0, 3),
)  # fmt: skip
def test_records_say_nothing_that_the_facts_do_not(found, fewest, seed):
    """Of any facts: each record has a fact, another object, and others who truly have either."""
    facts = [Fact(subject, relation, value) for (subject, relation), value in found.items()]
    words = {name: templates.of(name, TEMPLATES[name]) for name in {f.relation for f in facts}}
    made = CounterFact(fewest_neighbours=fewest, seed=seed).records(
        FactTable(facts, words), Fillers(("It rained.",), {}, {})
    )
    for record in made:
        rewrite = record["requested_rewrite"]
        key, new = (rewrite["subject"], rewrite["relation_id"]), rewrite["target_new"]["str"]
        assert found[key] == rewrite["target_true"]["str"] != new
        assert len(record["neighborhood_prompts"]) >= fewest
        for kind, value in (("neighborhood_prompts", found[key]), ("attribute_prompts", new)):
            prompts = {t.replace("{}", s) for (s, r), o in found.items() for t in words[key[1]].training
                       if (r, o) == (key[1], value) and s != key[0]}  # fmt: skip
            assert set(record[kind]) <= prompts
    expected = {
        (s, r) for (s, r), o in found.items()
        if len({x for (_, q), x in found.items() if q == r}) > 1
        and sum(x == o for (_, q), x in found.items() if q == r) > fewest
    }  # fmt: skip
    assert {(r["requested_rewrite"]["subject"], r["requested_rewrite"]["relation_id"])
            for r in made} == expected  # fmt: skip


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 6)), st.integers(0, 15))
def test_records_are_taken_in_turn(counts, size):
    queues = {name: [{"r": name, "i": i} for i in range(n)] for name, n in counts.items()}
    taken = spread(queues, size)
    in_turn = sorted((i, list(queues).index(name)) for name, n in counts.items() for i in range(n))
    expected = [queues[list(queues)[place]][i] for i, place in in_turn]
    assert taken == expected[:size]


def test_the_built_in_sentences_are_drawn_by_the_seed():
    built_in = read(BUILT_IN)
    assert built_in.sentence(Random(3)) == built_in.sentence(Random(3))


@pytest.mark.parametrize("task", ["counterfact", "counterfactplus"])
def test_the_records_run_through_the_tasks(material, tmp_path, task):
    made = material.triples.with_name("made.json")
    built(material)
    run = eh.evaluate("ft", task, tiny_model(), editor_args={"steps": 20, "layer": 0, "lr": 0.01},
                      task_args={"data": str(made)}, output=tmp_path)  # fmt: skip
    names = ("ES", "PS", "NS") if task == "counterfact" else ("ES", "NS+", "NKL+")
    for name in names:
        assert run[name].n == len(TRIPLES)
    assert run["ES"].value == 1, (
        "the prompts and objects are such that even a random model takes them"
    )
