"""What builders read: facts, templates, sentences and tags, and what is refused with its place."""

import json
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.own_facts import lines, stored

from edit_harness import DataError
from edit_harness_plugins.builders import fillers, templates, triples
from edit_harness_plugins.builders.asking import past, phrases_of
from edit_harness_plugins.builders.files import made_up_id
from edit_harness_plugins.builders.people import Person, continents_of, people_of, spelled
from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.people import Subject
from edit_harness_plugins.people import read as people_tags

FACTS = [Fact("Ada", "P27", "France", "Q1", "Q142", dead=True), Fact("Bob", "P27", "Côte d'Or")]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def refused(read, path, *parts):
    with pytest.raises(DataError) as caught:
        read(path)
    for part in (path.name, *parts):
        assert part in caught.value.cause
    assert caught.value.remedy


# Facts


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv"])
def test_facts_are_the_same_from_every_layout(tmp_path, suffix):
    header = ("subject", "relation", "object", "subject_id", "object_id", "dead", "note")
    ada = ("Ada", "P27", "France", "Q1", "Q142", "true", "x")
    rows = [ada, ("Bob", "P27", "Côte d'Or", "", "", "", "")]
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    comma = "\t" if suffix == ".tsv" else ","
    spaced = (f"{name} " for name in header)
    table = "\n".join(comma.join(row) for row in (spaced, *rows))
    text = {".jsonl": "\n\n".join(map(json.dumps, objects)), ".json": json.dumps(objects)}
    path = written(tmp_path / f"facts{suffix}", text.get(suffix, table))
    assert triples.read(path) == FACTS


def test_a_triple_that_is_said_twice_is_one_fact(tmp_path):
    triple = {"subject": "Ada", "relation": "P27", "object": "France"}
    rows = [triple, triple | {"subject_id": "Q1", "dead": True}, triple | {"object_id": "Q142"}]
    for order in (rows, rows[::-1]):
        assert triples.read(lines(tmp_path / "a.jsonl", order)) == FACTS[:1]
    # Facts of a JSON file may be lists.
    row = ["Ada", "P27", "France"]
    for data in ([row, row], {"note": "", "facts": [row]}):
        assert triples.read(stored(tmp_path / "facts.json", data)) == [Fact(*row)]


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.txt", "", ["no file of triples"]),
        ("a.jsonl", "", ["no triples"]),
        ("a.jsonl", '\n{"subject": "a", "relation": "r", "object": " "}', ["line 2", "object"]),
        ("a.jsonl", '{"subject": "a"}\n{', ["a.jsonl:2", "not JSON"]),
        ("a.json", '[\n["a", "r", "b"],\n["a", "r"]]', ["triple 2", "Expected `object`"]),
        ("a.json", '{"triples": []}', ["list of triples"]),
        ("a.csv", "subject,object\na,b\n", ["a.csv:1", "'relation'"]),
        ("a.csv", "subject,relation,object\na,r,o\n\na,r,o,\n", ["a.csv:4: 4 cells", "header has 3"]),
        ("a.csv", "subject,relation,object,subject_id\na,r,o,Q1\nb,r,o,Q1\n", ["Q1 is the id"]),
        ("a.csv", 'subject,relation,object\n"a"b,r,o\n', ["a.csv:2"]),
        ("a.csv", "subject,relation,object,subject_id\na,r,o,Q1\na,s,o,Q2\n", ["'a' has more ids"]),
        ("a.tsv", "subject\trelation\tobject\tdead\na\tr\to\tperhaps\n", ["line 2", "'perhaps'"]),
    ],
)  # fmt: skip
def test_facts_that_are_not_right_are_refused_with_their_place(tmp_path, name, text, parts):
    refused(triples.read, written(tmp_path / name, text), *parts)


# Templates


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ([], ["an object"]),
        ({"P1": []}, ["P1: Expected `object`"]),
        ({"P1": {"training": ["{} is", "lives in"]}}, ["P1: 'lives in'", "0 places"]),
        ({"P1": {"training": ["{} is "]}}, ["P1: '{} is '", "space"]),
    ],
)
def test_templates_that_are_not_right_are_refused(tmp_path, data, parts):
    refused(templates.read, stored(tmp_path / "words.json", data), *parts)


@given(st.text(min_size=1), st.integers(3, 12))
def test_two_templates_of_a_fact_are_kept_back(subject, count):
    words = templates.of("P1", {"training": [f"{i} {{}}" for i in range(count)]})
    unseen = words.unseen_templates(subject)
    assert len(unseen) == 2
    assert unseen <= set(range(count))
    assert len(words.seen_templates(subject)) == count - 2


# Sentences


def test_sentences_come_from_a_file_or_are_built_in_and_draw_different_words(tmp_path):
    read = fillers.read(written(tmp_path / "a.txt", "It rains.\n\n Snow fell. \n"))
    assert {read.sentence(Random(i)) for i in range(20)} == {"It rains.", "Snow fell."}
    data = {"note": "", "frames": ["{who} {year}"], "who": ["A", "B"], "year": [1, 1], "x": [{}]}
    read = fillers.read(stored(tmp_path / "a.json", data))
    assert {read.sentence(Random(i)) for i in range(20)} == {"A 1", "B 1"}
    built_in = fillers.read(fillers.BUILT_IN)
    assert not any("{" in built_in.sentence(Random(i)) for i in range(40))
    moved = fillers.Fillers(("{noun} {noun2} {n}",), {"noun": ("a", "b")}, {"n": (3, 4)})
    texts = {moved.sentence(Random(i)) for i in range(50)}
    assert texts == {"a b 3", "a b 4", "b a 3", "b a 4"}


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.txt", " \n", ["no sentences"]),
        ("a.txt", "A { day.", ["no frame"]),
        ("a.json", '{"frames": ["The {noun}."], "noun": ["one"]}', ["{noun}"]),
    ],
)
def test_sentences_that_cannot_be_filled_are_refused(tmp_path, name, text, parts):
    refused(fillers.read, written(tmp_path / name, text), *parts)


# People and phrases


def tags_of(tmp_path, data):
    return people_tags(stored(tmp_path / "tags.json", data), lists=True)


def test_people_are_made_of_facts_and_tags(tmp_path):
    facts = [
        Fact("Ada", "P21", "female", "Q1"), Fact("Ada", "P101", "physics"), Fact("Ada", "P101", "law"),
        Fact("Bob", "P21", "male"), Fact("Bob", "P21", "female"), Fact("Bob", "P570", "1999"),
        Fact("Cleo", "P101", "film"),
        Fact("Paris", "P17", "France"),
    ]  # fmt: skip
    tags = {
        "Q1": {"race": ["Black", "Jewish"], "geo": "Caribbean"},
        "Q3": {"name": "Cleo", "gender": "female", "dead": True},
    }
    ada, bob, cleo = people_of(facts, tags_of(tmp_path, tags))
    values = {"P21": ("female",), "P101": ("physics", "law")}
    races = ("Black", "Jewish")
    assert ada == Person("Q1", "Ada", "female", races, ("Caribbean",), False, values)
    assert (bob.id, bob.gender, bob.dead) == (made_up_id("Bob"), "", True)
    assert (cleo.id, cleo.gender, cleo.dead) == ("Q3", "female", True)
    assert "race" not in bob.tags
    as_list = tags_of(tmp_path, [{"name": "Ada", "geo": "Oceania", "values": {}}])
    assert as_list == [("", Subject("Ada", geo=("Oceania",)))]


def test_the_tag_of_a_namesake_is_not_taken_and_one_that_contradicts_a_fact_refused():
    tags = [("Q1", Subject("Ada", geo=("Oceania",))), ("Q2", Subject("Ada", geo=("Caribbean",)))]
    facts = [Fact("Ada", "P101", "law"), Fact("Bob", "P101", "law")]
    assert [person.geo for person in people_of(facts, tags)] == [(), ()]
    (ada,) = people_of([Fact("Ada", "P101", "law", "Q2")], tags)
    assert (ada.id, ada.geo) == ("Q2", ("Caribbean",))
    with pytest.raises(DataError, match="male by the tags and female by the facts"):
        people_of([Fact("Ada", "P21", "female")], [("", Subject("Ada", "male"))])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{}", ["an entry for each id"]),
        ('{"Q1": []}', ["Q1: Expected `object`"]),
        ('{"Q1": {"geo": "a|b"}}', ["Q1", "`$.geo[0]`"]),
        ('{"Q1": {"Gender": "male"}}', ["Q1", "`Gender`"]),
        ('[{"gender": "male"}]', ["entry 1", "name is missing"]),
        ('{"Q1": {"gender": "male"}, "Q1": {"gender": "female"}}', ["a key is there twice"]),
    ],
)
def test_tags_that_are_not_right_are_refused(tmp_path, text, parts):
    path = written(tmp_path / "tags.json", text)
    refused(partial(people_tags, lists=True), path, *parts)


def test_gender_is_read_whatever_its_letters_and_continents_are_those_of_the_country(tmp_path):
    (tag,) = tags_of(tmp_path, {"Q1": {"name": "Ada", "gender": " Female"}})
    assert tag[1].gender == "female"
    others = [Fact("Bob", "P21", "Agender"), Fact("Male", "P17", "Male")]
    facts = spelled([Fact("Ada", "P21", "Female"), Fact("Ada", "P21", "female", "Q1"), *others])
    assert facts == [Fact("Ada", "P21", "female", "Q1"), *others]
    assert [person.gender for person in people_of(facts, [tag])] == ["female", ""]
    # Of a country in two continents, the first; a place's own comes before its country's.
    places = [("Paris", "P17", "France"), ("France", "P30", "Europe"), ("Kiev", "P17", "Nowhere")]
    places += [("Russia", "P30", "Europe"), ("Russia", "P30", "Asia")]
    places += [("Java", "P30", "Asia"), ("Java", "P17", "France")]
    found = continents_of([Fact(*place) for place in places])
    assert found == {"Paris": "Europe", "France": "Europe", "Russia": "Europe", "Java": "Asia"}


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("{}'s gender is", "{}'s gender was"),
        ("{} was born in", "{} was born in"),
        ("The works island of {} is", "The worked island of {} was"),
        ("{}, speaker of", "{}, speaker of"),
    ],
)
def test_the_past_takes_whole_words_of_the_template(present, expected):
    assert past(present) == expected


def test_the_phrases_are_as_many_as_the_papers():
    found = phrases_of({})
    assert [len(found[name].edit) for name in ("P101", "P103", "P21")] == [10, 6, 1]
    assert [len(found[name].open) for name in ("P101", "P103", "P21")] == [3, 3, 2]
    assert len(found["P103"].ask) == 2
