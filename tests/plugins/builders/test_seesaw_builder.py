"""A folder of Seesaw-CF from facts about people, in the authors' schema."""

import json
import re
from collections import Counter

import pytest
from support.builders import DATA
from support.own_facts import PEOPLE, lines, people, stored

from edit_harness import DataError, UsageError
from edit_harness_plugins.builders.asking import past, phrases_of
from edit_harness_plugins.builders.seesaw import SETS, Seesaw
from edit_harness_plugins.commands.authoring import Material

WORK, LANGUAGE = (phrases_of({})[name] for name in ("P101", "P103"))
OF_WORK, OPEN_WORK = WORK.edit, WORK.open
SPEAKS, OF_LANGUAGE, OPEN_LANGUAGE = LANGUAGE.edit, LANGUAGE.ask, LANGUAGE.open
EFFECT = {"P21": "{}'s gender is", "P27": "{} is a citizen of", "P19": "{} was born in",
          "P101": "{}'s field of work is"}  # fmt: skip
CONTINENT = {"France": "Europe", "Spain": "Europe", "Japan": "Asia", "Egypt": "Africa",
             "Paris": "Europe", "Seville": "Europe", "Kyoto": "Asia", "Cairo": "Africa"}  # fmt: skip
COUNT = 24


@pytest.fixture
def material(tmp_path) -> Material:
    return Material(lines(tmp_path / "facts.jsonl", people(COUNT)))


def built(material: Material, told=None, **settings) -> dict[str, list | dict]:
    """Return the content of each file by its name without suffix."""
    out = material.triples.with_name("made")
    if out.exists():
        for path in out.iterdir():
            path.unlink()
        out.rmdir()
    Seesaw(**settings).build(material, out, (told if told is not None else []).append)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in out.iterdir()}


def truth() -> dict[str, dict[str, str]]:
    """Return the value of each person by property."""
    found: dict[str, dict[str, str]] = {}
    for row in people(COUNT):
        found.setdefault(row["subject"], {})[row["relation"]] = row["object"]
    return {name: values for name, values in found.items() if name.startswith("Person")}


def number(name: str) -> int:
    return int(name.removeprefix("Person "))


def test_the_folder_has_the_authors_files_and_ours(material):
    made = built(material)
    names = {f"seesaw_cf_{name}{end}" for name in SETS for end in ("", "_eff")}
    assert made.keys() == names | {"subjects", "candidates"}
    ids = [record["case_id"] for name in SETS for record in made[f"seesaw_cf_{name}"]]
    assert ids == list(range(COUNT * len(SETS)))


@pytest.mark.parametrize("name", SETS)
def test_the_records_of_a_set_are_true_to_the_facts(material, name):
    """Naively: everyone asked about has the new value, the edited person the old one."""
    facts = truth()
    edited, _, effect = name.partition("_")
    made = built(material)
    for record in made[f"seesaw_cf_{name}"]:
        assert record.keys() == {
            "case_id", "requested_rewrite", "generation_prompts", "attribute_prompts",
            "attribute_aux_info", "attribute_aux_ent",
        }  # fmt: skip
        rewrite = record["requested_rewrite"]
        subject, new = rewrite["subject"], rewrite["target_new"]["str"]
        assert rewrite["relation_id"] == edited
        assert rewrite["target_true"]["str"] == facts[subject][edited] != new
        if edited in ("P27", "P19"):
            assert CONTINENT[new] != CONTINENT[facts[subject][edited]]
        edits = {"P101": OF_WORK, "P103": SPEAKS}.get(edited, (EFFECT.get(edited),))
        assert rewrite["prompt"] in edits, "the edit is in the present, whoever has died"
        asks = {"P101": OF_WORK, "P103": OF_LANGUAGE}.get(edited, edits)
        entries = list(zip(record["attribute_prompts"], record["attribute_aux_info"],
                           record["attribute_aux_ent"], strict=True))  # fmt: skip
        owners = {other for other, values in facts.items() if values[edited] == new}
        expected = Counter(
            (past(t) if number(o) % 3 == 0 else t, f"Q{1000 + number(o)}", o)
            for o in owners for t in asks
        )  # fmt: skip
        templates = [(prompt.replace(other, "{}", 1), i, other) for prompt, i, other in entries]
        assert Counter(templates) == expected
        genders = [facts[other]["P21"] for _, _, other in entries]
        assert genders == sorted(genders), "women first, as in the published files"
        opened = Counter(record["generation_prompts"])
        assert set(opened.values()) == {5}
        if effect:
            assert set(opened) == {EFFECT[effect].replace("{}", subject), f"{subject} is"}
        else:
            dead = number(subject) % 3 == 0
            own = {"P101": OPEN_WORK, "P103": OPEN_LANGUAGE}[edited]
            assert set(opened) == {(past(t) if dead else t).replace("{}", subject) for t in own}


def test_efficacy_asks_for_the_edit_itself(material):
    made = built(material)
    for name in SETS:
        records = made[f"seesaw_cf_{name}"]
        for record, asked in zip(records, made[f"seesaw_cf_{name}_eff"], strict=True):
            rewrite = record["requested_rewrite"]
            assert asked == {
                "case_id": record["case_id"],
                "requested_rewrite": rewrite,
                "attribute_prompts": [rewrite["prompt"].replace("{}", rewrite["subject"])],
            }


def test_subjects_and_candidates_say_what_is_known(material, tmp_path):
    rows = [*people(COUNT), {"subject": "Person 0", "relation": "P101", "object": "chess"}]
    lines(material.triples, rows)
    tags = stored(tmp_path / "tags.json", {"Q1001": {"race": ["Black"], "geo": ["Caribbean"]}})
    made = built(material, tags=str(tags))
    assert len(made["subjects"]) == COUNT
    assert made["subjects"]["Q1000"] == {
        "name": "Person 0", "gender": "female", "dead": True,
        "values": {"P21": ["female"], "P27": ["France"], "P19": ["Paris"],
                   "P101": ["physics", "chess"], "P103": ["French"]},
    }  # fmt: skip
    assert made["subjects"]["Q1001"]["race"] == ["Black"]
    assert made["subjects"]["Q1001"]["geo"] == ["Caribbean"]
    expected = {name: sorted(values) for name, values in PEOPLE.items()}
    assert made["candidates"] == expected | {
        "P101": ["chess", "film", "law", "physics"],
        "continents": CONTINENT,
    }


def test_settings_limit_what_is_made(material):
    made = built(material, sets=("P101", "P27_P19"), cases=5, people=2, phrasings=1)
    assert made.keys() == {
        "seesaw_cf_P101", "seesaw_cf_P101_eff", "seesaw_cf_P27_P19", "seesaw_cf_P27_P19_eff",
        "subjects", "candidates",
    }  # fmt: skip
    facts = truth()
    for name in ("P101", "P27_P19"):
        assert len(made[f"seesaw_cf_{name}"]) == 5
        for record in made[f"seesaw_cf_{name}"]:
            genders = Counter(facts[other]["P21"] for other in record["attribute_aux_ent"])
            assert genders == {"female": 2, "male": 2}
            assert len(set(record["attribute_aux_info"])) == 4
    other = built(material, sets=("P101",), cases=5, people=2, seed=1)
    assert other["seesaw_cf_P101"] != made["seesaw_cf_P101"]


def test_a_set_does_not_depend_on_the_others(material):
    alone, both = (built(material, sets=s) for s in (("P19_P21",), ("P101", "P19_P21")))
    for one, two in zip(alone["seesaw_cf_P19_P21"], both["seesaw_cf_P19_P21"], strict=True):
        assert one | {"case_id": 0} == two | {"case_id": 0}


def test_without_gender_as_many_people_in_all(material):
    lines(material.triples, [row for row in people(COUNT) if row["relation"] != "P21"])
    made = built(material, sets=("P103",), people=2, phrasings=1)
    for record in made["seesaw_cf_P103"]:
        assert len(set(record["attribute_aux_info"])) == 4


def test_places_and_kinds_of_work_may_be_told_apart_by_more_facts(material, tmp_path):
    lines(material.triples, [row for row in people(COUNT) if row["relation"] not in ("P17", "P30")])
    free = built(material, sets=("P27_P21",))
    assert "continents" in free["candidates"]
    assert free["candidates"]["continents"] == {}
    changes = Counter(
        (r["requested_rewrite"]["target_true"]["str"], r["requested_rewrite"]["target_new"]["str"])
        for r in free["seesaw_cf_P27_P21"]
    )
    assert ("France", "Spain") in changes or ("Spain", "France") in changes
    more = [("France", "P30", "Europe"), ("Spain", "P30", "Europe"), ("Japan", "P30", "Asia"),
            ("film", "P279", "art"), ("law", "P279", "art"), ("physics", "P279", "science")]  # fmt: skip
    places = lines(tmp_path / "more.jsonl", more)
    made = built(material, sets=("P27_P21", "P101"), places=str(places))
    for record in made["seesaw_cf_P27_P21"]:
        change = {record["requested_rewrite"][f"target_{w}"]["str"] for w in ("true", "new")}
        assert change in ({"France", "Japan"}, {"Spain", "Japan"}) or "Egypt" in change
        true = record["requested_rewrite"]["target_true"]["str"]
        assert "Egypt" not in change or true == "Egypt", "nobody knows that it is elsewhere"
    for record in made["seesaw_cf_P101"]:
        change = {record["requested_rewrite"][f"target_{w}"]["str"] for w in ("true", "new")}
        assert "physics" in change


def test_only_what_a_model_knows_is_asked(material):
    """Unknown: all about persons 1 to 5, and every prompt in the past."""
    asked = []

    def known(prompt: str) -> bool:
        return not re.search(
            r"Person [1-5]\b|\bwas (?!born)|'s gender was|worked|specialized", prompt
        )

    def knows(items):
        asked.extend(items)
        return [known(prompt) for prompt, _ in items]

    told = []
    made = built(Material(material.triples, None, knows), told)
    assert len(asked) == len(set(asked))
    facts = truth()
    for name in SETS:
        assert made[f"seesaw_cf_{name}"]
        for record in made[f"seesaw_cf_{name}"]:
            rewrite = record["requested_rewrite"]
            assert known(rewrite["prompt"].replace("{}", rewrite["subject"]))
            for prompt, other in zip(record["attribute_prompts"], record["attribute_aux_ent"], strict=True):  # fmt: skip
                assert known(prompt)
                assert (prompt, facts[other][rewrite["relation_id"]]) in asked
    assert any(re.match(r"known +[\d,]+ of [\d,]+ answers", line) for line in told)


def test_who_has_the_old_value_too_is_not_asked(material):
    """Of those who work in law some work in physics too."""
    own = [{"subject": f"Person {i}", "relation": "P101", "object": "physics"} for i in (4, 10, 16)]
    lines(material.triples, [*people(COUNT), *own])
    asked = set()
    for record in built(material, sets=("P101",))["seesaw_cf_P101"]:
        rewrite = record["requested_rewrite"]
        if (rewrite["target_true"]["str"], rewrite["target_new"]["str"]) == ("physics", "law"):
            asked.update(record["attribute_aux_ent"])
    assert (
        asked == {"Person 5", "Person 11", "Person 17", "Person 22", "Person 23"} & asked != set()
    )


def test_a_value_that_would_be_two_is_refused(material):
    rows = [*people(COUNT), {"subject": "Person 0", "relation": "P101", "object": "a|b"}]
    with pytest.raises(DataError, match=r"Person 0 P101: the object 'a\|b' has '\|' in it"):
        built(Material(lines(material.triples, rows)))


def test_numbers_are_in_the_singular_where_they_are_one(material):
    told = []
    built(material, told, sets=("P27_P21",), cases=1, people=1)
    assert told == ["P27_P21  1 case, 2 attribute prompts"]


def test_a_file_that_is_not_there_is_named_with_its_field(material):
    for name in ("tags", "places"):
        with pytest.raises(DataError, match=f"{name}: there is no file 'nope.json'"):
            built(material, **{name: "nope.json"})


def test_own_templates_are_for_work_and_language(material, tmp_path):
    own = {name: {"training": ["{} does only"]} for name in ("P101", "P27")}
    made = built(Material(material.triples, stored(tmp_path / "words.json", own)), sets=("P101_P27", "P27_P101"))  # fmt: skip
    assert {r["requested_rewrite"]["prompt"] for r in made["seesaw_cf_P101_P27"]} == {
        "{} does only"
    }
    assert {r["requested_rewrite"]["prompt"] for r in made["seesaw_cf_P27_P101"]} == {EFFECT["P27"]}
    for record in made["seesaw_cf_P101_P27"]:
        subject = record["requested_rewrite"]["subject"]
        assert set(record["generation_prompts"]) == {f"{subject} is a citizen of", f"{subject} is"}


def test_open_prompts_of_a_property_alone(material, tmp_path):
    own = {"P103": {"training": [f"{{}} says {i}" for i in range(5)]}}
    made = built(Material(material.triples, stored(tmp_path / "words.json", own)), sets=("P103", "P19"))  # fmt: skip
    drawn = set()
    for record in made["seesaw_cf_P103"]:
        subject = record["requested_rewrite"]["subject"]
        opened = Counter(p.replace(subject, "{}") for p in record["generation_prompts"])
        assert list(opened.values()) == [5, 5, 5]
        drawn |= opened.keys()
    assert drawn == set(own["P103"]["training"])
    for record in made["seesaw_cf_P19"]:
        subject = record["requested_rewrite"]["subject"]
        dead = number(subject) % 3 == 0
        opened = {f"{subject} was born in", f"{subject} was" if dead else f"{subject} is"}
        assert set(record["generation_prompts"]) == opened


def test_sets_without_facts_are_left_out_and_said(material):
    lines(material.triples, [row for row in people(COUNT) if row["relation"] != "P103"])
    told = []
    made = built(material, told)
    assert "seesaw_cf_P103" not in made
    assert "seesaw_cf_P101" in made
    assert any(line.split()[:2] == ["P103", "0"] for line in told)


@pytest.mark.parametrize(
    "sets", [("P21_P99",), ("P21_P21",), ("P21_P19_P27",), ("",), (), ("P101", "P101")]
)
def test_sets_that_there_are_not_are_refused(material, sets):
    with pytest.raises(UsageError, match="set"):
        built(material, sets=sets)


def test_what_nothing_can_be_made_of_is_refused(material):
    with pytest.raises(DataError, match="no case"):
        built(Material(material.triples, None, lambda asked: [False] * len(asked)))
    lines(material.triples, [("Paris", "P17", "France")])
    with pytest.raises(DataError, match="about a person"):
        built(material)
    assert not material.triples.with_name("made").exists()


def genuine(name: str) -> list[dict]:
    """Return a file of the authors; it is not ours to put into the repository."""
    path = DATA / "seesaw" / f"seesaw_cf_{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["P21_P101", "P19_P101", "P27_P21"])
def test_the_authors_files_have_our_templates_tense_and_fields(material, name):
    """Every prompt is one that the builder would make, save those whose name the past was put into."""
    edited, effect = name.split("_")
    (ours, *_) = built(material, sets=(name,))[f"seesaw_cf_{name}"]
    spoiled = []
    for record in genuine(name):
        assert list(record) == list(ours)
        assert record["requested_rewrite"].keys() == ours["requested_rewrite"].keys()
        subject = record["requested_rewrite"]["subject"]
        assert record["requested_rewrite"]["prompt"] == EFFECT[edited]
        opened = [EFFECT[effect].replace("{}", subject), f"{subject} is"]
        assert record["generation_prompts"] == [prompt for prompt in opened for _ in range(5)]
        pairs = zip(record["attribute_prompts"], record["attribute_aux_ent"], strict=True)
        for prompt, other in pairs:
            tenses = (EFFECT[edited], past(EFFECT[edited]))
            if prompt not in [template.replace("{}", other) for template in tenses]:
                spoiled.append(other)
    assert spoiled == (["Sophistic works of Antiphon"] if name == "P27_P21" else [])


def test_the_authors_edit_language_in_our_templates():
    prompts = {record["requested_rewrite"]["prompt"] for record in genuine("P103_eff")}
    assert prompts == set(SPEAKS)
