"""A folder of Seesaw-CF from facts about people, in the authors' schema."""

import json
import re
import shutil
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
    shutil.rmtree(out, ignore_errors=True)
    Seesaw(**settings).build(material, out, (told if told is not None else []).append)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in out.iterdir()}


FACTS: dict[str, dict[str, str]] = {}
"""The value of each person by property."""
for row in people(COUNT):
    if row["subject"].startswith("Person"):
        FACTS.setdefault(row["subject"], {})[row["relation"]] = row["object"]
IDS = {f"Person {i}": f"Q{1000 + i}" for i in range(COUNT)}
DEAD = {f"Person {i}" for i in range(0, COUNT, 3)}


def change(record):
    """Return the true and the new object of a record's edit."""
    return tuple(record["requested_rewrite"][f"target_{which}"]["str"] for which in ("true", "new"))


def test_the_folder_has_the_authors_files_and_ours(material):
    made = built(material)
    names = {f"seesaw_cf_{name}{end}" for name in SETS for end in ("", "_eff")}
    assert made.keys() == names | {"subjects", "candidates"}
    ids = [record["case_id"] for name in SETS for record in made[f"seesaw_cf_{name}"]]
    assert ids == list(range(COUNT * len(SETS)))
    for name in SETS:
        records = made[f"seesaw_cf_{name}"]
        for record, asked in zip(records, made[f"seesaw_cf_{name}_eff"], strict=True):
            rewrite = record["requested_rewrite"]
            assert asked == {
                "case_id": record["case_id"],
                "requested_rewrite": rewrite,
                "attribute_prompts": [rewrite["prompt"].replace("{}", rewrite["subject"])],
            }, "efficacy asks for the edit itself"


@pytest.mark.parametrize("name", SETS)
def test_the_records_of_a_set_are_true_to_the_facts(material, name):
    """Naively: everyone asked about has the new value, the edited person the old one."""
    edited, _, effect = name.partition("_")
    edits = {"P101": OF_WORK, "P103": SPEAKS}.get(edited, (EFFECT.get(edited),))
    asks = {"P101": OF_WORK, "P103": OF_LANGUAGE}.get(edited, edits)
    opens = {"P101": OPEN_WORK, "P103": OPEN_LANGUAGE}.get(edited)
    for record in built(material, sets=(name,))[f"seesaw_cf_{name}"]:
        assert record.keys() == {
            "case_id", "requested_rewrite", "generation_prompts", "attribute_prompts",
            "attribute_aux_info", "attribute_aux_ent",
        }  # fmt: skip
        rewrite = record["requested_rewrite"]
        subject, (true, new) = rewrite["subject"], change(record)
        assert rewrite["relation_id"] == edited
        assert true == FACTS[subject][edited] != new
        if edited in ("P27", "P19"):
            assert CONTINENT[new] != CONTINENT[true]
        assert rewrite["prompt"] in edits, "the edit is in the present, whoever has died"
        entries = list(zip(record["attribute_prompts"], record["attribute_aux_info"],
                           record["attribute_aux_ent"], strict=True))  # fmt: skip
        owners = {other for other, values in FACTS.items() if values[edited] == new}
        assert Counter((p.replace(other, "{}", 1), i, other) for p, i, other in entries) == Counter(
            (past(t) if o in DEAD else t, IDS[o], o) for o in owners for t in asks
        )
        genders = [FACTS[other]["P21"] for _, _, other in entries]
        assert genders == sorted(genders), "women first, as in the published files"
        opened = Counter(record["generation_prompts"])
        assert set(opened.values()) == {5}
        own = [past(t) if subject in DEAD else t for t in opens or ()]
        own = [EFFECT[effect], "{} is"] if effect else own
        assert set(opened) == {template.replace("{}", subject) for template in own}


def test_subjects_and_candidates_say_what_is_known(material, tmp_path):
    rows = [*people(COUNT), {"subject": "Person 0", "relation": "P101", "object": "chess"}]
    lines(material.triples, rows)
    tags = stored(tmp_path / "tags.json", {"Q1001": {"race": ["Black"], "geo": ["Caribbean"]}})
    made = built(material, tags=str(tags))
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
    for name in ("P101", "P27_P19"):
        assert len(made[f"seesaw_cf_{name}"]) == 5
        for record in made[f"seesaw_cf_{name}"]:
            genders = Counter(FACTS[other]["P21"] for other in record["attribute_aux_ent"])
            assert genders == {"female": 2, "male": 2}
            assert len(set(record["attribute_aux_info"])) == 4
    other = built(material, sets=("P101",), cases=5, people=2, seed=1)
    assert other["seesaw_cf_P101"] != made["seesaw_cf_P101"]


def test_sets_without_facts_are_left_out(material):
    lines(material.triples, [row for row in people(COUNT) if row["relation"] != "P103"])
    made = built(material, sets=("P101", "P103"))
    assert "seesaw_cf_P101" in made
    assert "seesaw_cf_P103" not in made
    # Without gender there are as many people in all.
    lines(material.triples, [row for row in people(COUNT) if row["relation"] != "P21"])
    made = built(material, sets=("P103",), people=2, phrasings=1)
    for record in made["seesaw_cf_P103"]:
        assert len(set(record["attribute_aux_info"])) == 4


def test_places_and_kinds_of_work_may_be_told_apart_by_more_facts(material, tmp_path):
    lines(material.triples, [row for row in people(COUNT) if row["relation"] not in ("P17", "P30")])
    free = built(material, sets=("P27_P21",))
    assert free["candidates"]["continents"] == {}
    assert {"France", "Spain"} in [set(change(r)) for r in free["seesaw_cf_P27_P21"]]
    more = [("France", "P30", "Europe"), ("Spain", "P30", "Europe"), ("Japan", "P30", "Asia")]
    more += [("film", "P279", "art"), ("law", "P279", "art"), ("physics", "P279", "science")]
    places = lines(tmp_path / "more.jsonl", more)
    made = built(material, sets=("P27_P21", "P101"), places=str(places))
    for true, new in map(change, made["seesaw_cf_P27_P21"]):
        assert {true, new} in ({"France", "Japan"}, {"Spain", "Japan"}) or true == "Egypt", (
            "nobody knows that Egypt is elsewhere"
        )
    assert all("physics" in change(record) for record in made["seesaw_cf_P101"])


def test_only_what_a_model_knows_is_asked(material):
    """Unknown: all about persons 1 to 5, and every prompt in the past."""
    unknown = re.compile(r"Person [1-5]\b|\bwas (?!born)|'s gender was|worked|specialized")
    asked, told = [], []

    def knows(items):
        asked.extend(items)
        return [not unknown.search(prompt) for prompt, _ in items]

    made = built(Material(material.triples, None, knows), told)
    assert len(asked) == len(set(asked))
    for name in SETS:
        assert made[f"seesaw_cf_{name}"]
        for record in made[f"seesaw_cf_{name}"]:
            rewrite = record["requested_rewrite"]
            assert not unknown.search(rewrite["prompt"].replace("{}", rewrite["subject"]))
            others = zip(record["attribute_prompts"], record["attribute_aux_ent"], strict=True)
            for prompt, other in others:
                assert not unknown.search(prompt)
                assert (prompt, FACTS[other][rewrite["relation_id"]]) in asked
    assert any(re.match(r"known +[\d,]+ of [\d,]+ answers", line) for line in told)


def test_who_has_the_old_value_too_is_not_asked(material):
    """Of those who work in law some work in physics too."""
    own = [{"subject": f"Person {i}", "relation": "P101", "object": "physics"} for i in (4, 10, 16)]
    lines(material.triples, [*people(COUNT), *own])
    asked = set()
    for record in built(material, sets=("P101",))["seesaw_cf_P101"]:
        if change(record) == ("physics", "law"):
            asked.update(record["attribute_aux_ent"])
    assert asked
    assert asked <= {f"Person {i}" for i in (5, 11, 17, 22, 23)}


def test_own_templates_are_for_work_and_language(material, tmp_path):
    own = {name: {"training": ["{} does only"]} for name in ("P101", "P27")}
    own = Material(material.triples, stored(tmp_path / "words.json", own))
    made = built(own, sets=("P101_P27", "P27_P101"))
    work, home = (made[f"seesaw_cf_{name}"] for name in ("P101_P27", "P27_P101"))
    assert {r["requested_rewrite"]["prompt"] for r in work} == {"{} does only"}
    assert {r["requested_rewrite"]["prompt"] for r in home} == {EFFECT["P27"]}
    for record in work:
        subject = record["requested_rewrite"]["subject"]
        assert set(record["generation_prompts"]) == {f"{subject} is a citizen of", f"{subject} is"}
    # Open prompts of a property alone are drawn from them.
    own = {"P103": {"training": [f"{{}} says {i}" for i in range(5)]}}
    own_words = Material(material.triples, stored(tmp_path / "words.json", own))
    drawn = set()
    for record in built(own_words, sets=("P103",))["seesaw_cf_P103"]:
        subject = record["requested_rewrite"]["subject"]
        opened = Counter(p.replace(subject, "{}") for p in record["generation_prompts"])
        assert list(opened.values()) == [5, 5, 5]
        drawn |= opened.keys()
    assert drawn == set(own["P103"]["training"])


def test_what_nothing_can_be_made_of_is_refused(material):
    with pytest.raises(UsageError, match="there is no set 'P21_P99'"):
        built(material, sets=("P21_P99",))
    with pytest.raises(DataError, match="there is no file"):
        built(material, places="nope.json")
    with pytest.raises(DataError, match="no case"):
        built(Material(material.triples, None, lambda asked: [False] * len(asked)))
    lines(material.triples, [*people(COUNT), ("Person 0", "P101", "a|b")])
    with pytest.raises(DataError, match=r"Person 0 P101: the object 'a\|b' has '\|' in it"):
        built(material)
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
    tenses, spoiled = (EFFECT[edited], past(EFFECT[edited])), []
    for record in genuine(name):
        rewrite = record["requested_rewrite"]
        assert list(record) == list(ours)
        assert rewrite.keys() == ours["requested_rewrite"].keys()
        assert rewrite["prompt"] == EFFECT[edited]
        opened = [EFFECT[effect].replace("{}", rewrite["subject"]), f"{rewrite['subject']} is"]
        assert record["generation_prompts"] == [prompt for prompt in opened for _ in range(5)]
        pairs = zip(record["attribute_prompts"], record["attribute_aux_ent"], strict=True)
        spoiled += [o for p, o in pairs if p not in [t.replace("{}", o) for t in tenses]]
    assert spoiled == (["Sophistic works of Antiphon"] if name == "P27_P21" else [])


def test_the_authors_edit_language_in_our_templates():
    prompts = {record["requested_rewrite"]["prompt"] for record in genuine("P103_eff")}
    assert prompts == set(SPEAKS)
