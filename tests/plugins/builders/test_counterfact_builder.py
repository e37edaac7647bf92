"""Records of one's own facts, in CounterFact's schema."""

import json
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.own_facts import NAMES, OBJECTS, TEMPLATES, TRIPLES, lines, stored

import edit_harness as eh
from edit_harness import DataError, UsageError
from edit_harness.testing import tiny_model
from edit_harness_plugins.builders import templates
from edit_harness_plugins.builders.counterfact import CounterFact
from edit_harness_plugins.builders.fillers import Fillers
from edit_harness_plugins.builders.triples import Fact, FactTable
from edit_harness_plugins.commands.authoring import Material


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


def test_every_fact_becomes_a_record_in_the_words_of_its_relation(material):
    """That people are true to the facts is tested with any facts, below."""
    records = built(material)
    assert [record["case_id"] for record in records] == list(range(len(TRIPLES)))
    edited = set()
    for record in records:
        rewrite = record["requested_rewrite"]
        subject, relation = rewrite["subject"], rewrite["relation_id"]
        edited.add((subject, relation, rewrite["target_true"]["str"]))
        words = TEMPLATES[relation]
        assert rewrite["prompt"] in words["training"]
        assert rewrite["target_new"]["str"] in OBJECTS[relation]
        for prompt in record["paraphrase_prompts"]:
            filler, template = prompt.split(". ", 1)
            assert template.replace(subject, "{}") in words["held_out"]
            assert subject not in filler
        assert len(set(record["paraphrase_prompts"])) == 2
        for kind, value in (("neighborhood", "true"), ("attribute", "new")):
            target = rewrite[f"target_{value}"]["str"]
            owners = {s for s, r, o in TRIPLES if (r, o) == (relation, target)} - {subject}
            assert {subject_of(prompt) for prompt in record[f"{kind}_prompts"]} == owners
            for prompt in record[f"{kind}_prompts"]:
                template = prompt.replace(subject_of(prompt), "{}")
                assert template in set(words["training"]) - {rewrite["prompt"]}
        generations = {prompt.replace(subject, "{}") for prompt in record["generation_prompts"]}
        assert generations == set(words["training"])
    assert edited == set(TRIPLES)


def test_ids_are_the_users_or_stable_made_up_ones(material):
    keys = ("subject", "relation", "object")
    rows = [dict(zip(keys, triple, strict=True)) for triple in TRIPLES]
    lines(material.triples, [r | {"object_id": "Q4"} if r["object"] == "harp" else r for r in rows])
    ids = defaultdict(set)
    for record in built(material):
        for part in ("target_true", "target_new"):
            target = record["requested_rewrite"][part]
            ids[target["str"]].add(target["id"])
    assert ids["harp"] == {"Q4"}
    assert len({found for (found,) in ids.values()}) == len(ids) == 7
    assert all(found.startswith("W") for name, (found,) in ids.items() if name != "harp")


def test_only_what_a_model_knows_is_written_and_asked(material):
    """Bob's facts and one template are unknown; neither is in any record."""
    asked = []

    def knows(items):
        asked.extend(items)
        return ["Bob" not in prompt and "passport" not in prompt for prompt, _ in items]

    records = built(Material(material.triples, material.templates, knows))
    assert set(asked) == {
        (t.replace("{}", s, 1), o) for s, r, o in TRIPLES for t in TEMPLATES[r]["training"]
    }
    subjects = {record["requested_rewrite"]["subject"] for record in records}
    assert subjects == set(NAMES) - {"Bob"}
    for record in records:
        rewrite = record["requested_rewrite"]
        text = rewrite["prompt"].replace("{}", rewrite["subject"], 1)
        for prompt in (text, *record["neighborhood_prompts"], *record["attribute_prompts"]):
            assert "Bob" not in prompt
            assert "passport" not in prompt


def test_settings_limit_what_is_made(material, tmp_path):
    assert len(built(material, size=7)) == 7
    relations = [r["requested_rewrite"]["relation_id"] for r in built(material, size=7)]
    assert sorted(relations.count(name) for name in TEMPLATES) == [2, 2, 3]
    assert built(material, seed=1) != built(material, seed=2)
    few = built(material, fewest_neighbours=4)
    assert {r["requested_rewrite"]["relation_id"] for r in few} == {"P27", "P1303"}
    # Sentences of one's own stand before paraphrases.
    (tmp_path / "own.txt").write_text("It rained.\n", encoding="utf-8")
    for record in built(material, fillers=str(tmp_path / "own.txt")):
        assert all(prompt.startswith("It rained. ") for prompt in record["paraphrase_prompts"])


def test_templates_can_be_withheld(material):
    words = json.loads(material.templates.read_text())
    for relation in words.values():
        relation["training"] += [f"{{}} {i}" for i in range(2)]
    stored(material.templates, words)
    for record in built(material, withhold=True):
        rewrite = record["requested_rewrite"]
        relation = templates.of(rewrite["relation_id"], words[rewrite["relation_id"]])
        assert rewrite["prompt"] in relation.seen_templates(rewrite["subject"])
        for prompt in record["neighborhood_prompts"]:
            other = subject_of(prompt)
            assert prompt.replace(other, "{}") in relation.seen_templates(other)


def test_what_is_left_out_is_said(material):
    extra = [
        ("Ada", "P27", "Sylvania"),
        ("Ada", "P1", "x"),
        ("Bob", "P9", "one"),
        ("Ada", "P9", "one"),
    ]
    lines(material.triples, [*TRIPLES, *extra])
    stored(material.templates, TEMPLATES | {"P9": TEMPLATES["P27"], "P8": TEMPLATES["P27"]})
    told = []
    records = built(material, told)
    assert "Ada P27" in next(line for line in told if "several objects" in line)
    assert any(line.startswith("left out the facts of P1:") for line in told)
    assert any("its relation has one object" in line for line in told)
    assert told[-1] == "made     29 records of 31 facts"
    for record in records:
        rewrite = record["requested_rewrite"]
        assert rewrite["relation_id"] in OBJECTS
        assert rewrite["relation_id"] != "P27" or "Ada" not in str(record)


def test_what_nothing_can_be_made_of_is_refused(material):
    with pytest.raises(UsageError, match="words"):
        built(Material(material.triples))
    with pytest.raises(DataError, match="no record can be made"):
        built(Material(material.triples, material.templates, lambda asked: [False] * len(asked)))
    assert not material.triples.with_name("made.json").exists()


@pytest.mark.parametrize(
    ("words", "settings", "cause"),
    [
        ({"P27": {"training": ["{} is"]}}, {}, "P27 has 1 of training, and needs 2"),
        (TEMPLATES, {"withhold": True}, "P641 has 2 of training, and needs 4"),
        ({"P2": TEMPLATES["P27"]}, {}, "no fact has one of the relations P2"),
    ],
)
def test_templates_that_are_too_few_are_refused(material, words, settings, cause):
    stored(material.templates, words)
    with pytest.raises(DataError, match=cause):
        built(material, **settings)


FACTS = st.dictionaries(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["P27", "P641"])),
    st.sampled_from(["x", "y", "z"]),
    min_size=1,
)


@given(FACTS, st.integers(1, 3), st.integers(0, 3))
def test_records_say_nothing_that_the_facts_do_not(found, fewest, seed):
    """Of any facts: each record has a fact, another object, and others who truly have either."""
    facts = [Fact(subject, relation, value) for (subject, relation), value in found.items()]
    words = {name: templates.of(name, TEMPLATES[name]) for name in {f.relation for f in facts}}
    made = CounterFact(fewest_neighbours=fewest, seed=seed).records(
        FactTable(facts, words), Fillers(("It rained.",), {}, {})
    )
    edited = set()
    for record in made:
        rewrite = record["requested_rewrite"]
        key, new = (rewrite["subject"], rewrite["relation_id"]), rewrite["target_new"]["str"]
        edited.add(key)
        assert found[key] == rewrite["target_true"]["str"] != new
        assert len(record["neighborhood_prompts"]) >= fewest
        for kind, value in (("neighborhood_prompts", found[key]), ("attribute_prompts", new)):
            others = [s for (s, r), o in found.items() if (r, o) == (key[1], value) and s != key[0]]
            prompts = {t.replace("{}", s) for s in others for t in words[key[1]].training}
            assert set(record[kind]) <= prompts
    held = Counter((relation, value) for (_, relation), value in found.items())
    varied = {r for r in words if sum(relation == r for relation, _ in held) > 1}
    assert edited == {(s, r) for (s, r), o in found.items() if r in varied and held[r, o] > fewest}


def test_the_records_run_through_the_task(material, tmp_path):
    """The prompts and objects are such that even a random model takes them."""
    built(material)
    made = str(material.triples.with_name("made.json"))
    how = {"editor_args": {"steps": 20, "layer": 0, "lr": 0.01}, "task_args": {"data": made}}
    run = eh.evaluate("ft", "counterfactplus", tiny_model(), output=tmp_path, **how)
    assert [run[name].n for name in ("ES", "NS+", "NKL+")] == [len(TRIPLES)] * 3
    assert run["ES"].value == 1
