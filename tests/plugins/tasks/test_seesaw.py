import json
from collections import Counter
from fractions import Fraction
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.complaints import complaint
from support.seesaw_data import CANDIDATES, SUBJECTS, efficacy, folder, record, records, write

from edit_harness import Case, Choose, Generate, Key, Probe, Regime, Request, UsageError
from edit_harness.testing import TaskTests
from edit_harness_plugins.tasks.seesaw.asking import FLAWS, PARTS, shares, stratified
from edit_harness_plugins.tasks.seesaw.files import PROPERTIES, TITLE, sets_at
from edit_harness_plugins.tasks.seesaw.subjects import told_by
from edit_harness_plugins.tasks.seesaw.task import SeesawCF

PAIRS = [
    "P101_P21",
    "P101_P27",
    "P21_P101",
    "P27_P101",
    "P27_P21",
    "P27_P19",
    "P19_P101",
    "P19_P21",
]


class TestSeesawCF(TaskTests):
    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        folder(tmp_path / "data", only_efficacy=["P19_P101"])
        spoilt = records("P103")
        spoilt[1]["requested_rewrite"]["subject"] = ""
        write(tmp_path / "data" / "seesaw_cf_P103.json", spoilt)
        monkeypatch.setattr(self, "task", SeesawCF(str(tmp_path / "data")), raising=False)


def task(path, **settings):
    return SeesawCF(str(path), **settings)


def asked(case, role):
    return [probe for probe in case.probes if probe.role == role]


def roles(made):
    """Return the roles of each set's probes, and how many cases it has."""
    found = {}
    for case in made.cases():
        count, own = found.get(case.tags["set"], (0, set()))
        found[case.tags["set"]] = count + 1, own | {probe.role for probe in case.probes}
    return found


def test_a_record_becomes_a_case(tmp_path):
    tags = json.loads(json.dumps(SUBJECTS))
    tags["Q0"]["values"]["P101"] = ["chemistry", "biology", "physics"]
    told = {"samples": 2, "seed": 3, "definitions": "people"}
    made = task(folder(tmp_path, tags=tags), sets="P21_P101", **told)
    case = next(iter(made.cases()))
    assert case.id == "P21_P101-0"
    assert case.requests == (Request("{}'s gender is", "Person 0", "male", "female"),)
    assert case.tags == {"set": "P21_P101", "edited": "P21", "effect": "P101"}
    objects = ("male", "female")
    assert asked(case, "efficacy") == [Probe("efficacy", Choose("Person 0's gender is", objects))]
    men = [person for person, said in SUBJECTS.items() if said["gender"] == "male"]
    others = {p.tags["subject"]: p for p in asked(case, "cross-subject")}
    assert [(person, p.query) for person, p in others.items()] == [
        (person, Choose(f"{SUBJECTS[person]['name']}'s gender is", objects)) for person in men
    ]
    assert others["Q3"].tags == {"subject": "Q3", "gender": "male", "geo": "Western Europe"}
    assert others["Q10"].tags["race"] == "Black|Jewish"
    query = Choose("Person 0's field of work is", ("physics", "chemistry"))
    assert asked(case, "cross-property") == [
        Probe("cross-property", query, {"gold": "chemistry|physics"})
    ]
    key = Key("compare", about={
        "subject": "Person 0", "property": "gender", "old": "female", "new": "male",
        "aspects": dict(FLAWS["people"]), "definitions": "people", "reflected": True,
    })  # fmt: skip
    text = {"max_new_tokens": 100, "top_k": 5, "max_tokens": 100, "to_the_end": True}
    seeds = [crc32(f"3/P21_P101-0/0/{sample}".encode()) for sample in range(2)]
    assert asked(case, "description") == [
        Probe("description", Generate("Person 0 is", seed=seed, **text), key=key) for seed in seeds
    ]


def test_the_gender_of_the_tag_is_gold_where_it_is_the_effect(tmp_path):
    said = CANDIDATES | {"P101": ["chemistry", "physics", "chemistry"]}
    first, second = task(folder(tmp_path, candidates=said), sets="P27_P21").cases()
    assert asked(first, "cross-property")[0].tags == {"gold": "female"}
    assert first.tags["continent"] == "Africa"
    assert asked(second, "cross-property")[0].query.candidates == ("female", "male")
    work, _ = task(tmp_path, sets="P21_P101").cases()
    candidates = asked(work, "cross-property")[0].query.candidates
    assert candidates == ("chemistry", "physics"), "one that is there twice counts once"


def test_every_property_and_every_pair(tmp_path):
    made = task(folder(tmp_path, [*PROPERTIES, *PAIRS]))
    assert list(sets_at(tmp_path)) == [
        "P101", "P101_P21", "P101_P27", "P103", "P21", "P21_P101", "P27", "P27_P101", "P27_P21",
        "P27_P19", "P19", "P19_P101", "P19_P21",
    ]  # fmt: skip
    everywhere = {"efficacy", "description"}
    for name, (count, found) in roles(made).items():
        pair = {"cross-property"} if "_" in name else set()
        lead = {"cross-subject"} if name in PROPERTIES else set()
        assert (count, found) == (2, everywhere | pair | lead), name
    assert made.notes == ("subjects.json: of 12 subjects, 3 have no race, 4 have no region",)
    published = roles(task(tmp_path, sets=",".join(["P101", "P103", *PAIRS])))
    assert {name for name, (_, own) in published.items() if "cross-subject" in own} == {
        "P101", "P103", "P21_P101", "P27_P101", "P19_P101",
    }  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_sets_without_the_part_are_left_out(tmp_path, part):
    made = task(folder(tmp_path, ["P101", "P101_P27", "P21_P101"]), part=part)
    role = "description" if part == "open-ended" else part
    expected = {
        "cross-subject": ["P101", "P21_P101"],
        "cross-property": ["P101_P27", "P21_P101"],
        "open-ended": ["P101", "P101_P27", "P21_P101"],
    }
    assert roles(made) == {name: (2, {"efficacy", role}) for name in expected[part]}


def test_an_edit_that_only_the_file_for_efficacy_has(tmp_path):
    folder(tmp_path, ["P21_P101"])
    more = [efficacy(made) for made in records("P21_P101", count=3)]
    write(tmp_path / "seesaw_cf_P21_P101_eff.json", more)
    cases = list(task(tmp_path).cases())
    assert [case.id for case in cases] == ["P21_P101-0", "P21_P101-1", "P21_P101-2"]
    assert [len(asked(case, "efficacy")) for case in cases] == [1, 1, 1]
    assert len(cases[2].probes) == 1
    (one, _) = task(tmp_path / "seesaw_cf_P21_P101.json").cases()
    assert one == cases[0], "one file is one set, with what lies beside it"


def test_the_two_files_of_a_set_contradict_each_other(tmp_path):
    folder(tmp_path, ["P21_P101"])
    other = [efficacy(made) for made in records("P21_P101", first=1)]
    path = write(tmp_path / "seesaw_cf_P21_P101_eff.json", other)
    assert complaint(task(tmp_path)).cause == (
        f"case_id 1 has another edit in {path} than in {tmp_path / 'seesaw_cf_P21_P101.json'}"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["Person 0 is"]),
        ({"prompts": "all"}, ["Person 0's field of work is", "Person 0 is"]),
        ({"sets": "P101"}, ["Person 0 works on", "Person 0 is"]),
    ],
)
def test_which_prompts_are_continued(tmp_path, settings, expected):
    made = task(folder(tmp_path), **{"sets": "P21_P101", "samples": 3, **settings})
    texts = asked(next(iter(made.cases())), "description")
    assert [p.query.prompt for p in texts] == [prompt for prompt in expected for _ in range(3)]
    assert len({p.query.seed for p in texts}) == len(texts)


def test_without_candidates_the_part_is_left_out_and_told(tmp_path):
    some = {"P101": ["physics"], "P103": ["French"]}
    made = task(folder(tmp_path, ["P27_P19", "P21_P101"], candidates=some))
    assert "cross-property" not in roles(made)["P27_P19"][1]
    assert "cross-property" in roles(made)["P21_P101"][1]
    *_, left_out, gold = made.notes
    assert gold.startswith("P21_P101: 1 of 2 edited people have no known field of work")
    assert left_out.startswith("P27_P19: no values of P19 (place of birth) are known")
    first, second = [case for case in made.cases() if case.tags["set"] == "P21_P101"]
    assert asked(first, "cross-property")[0].tags == {"gold": "physics"}
    assert asked(second, "cross-property")[0].tags == {}


def test_what_another_set_edits_is_gold(tmp_path):
    """Of a set that is not asked for too; the file of subjects goes first."""
    bare = {i: {"name": said["name"]} for i, said in SUBJECTS.items()}
    folder(tmp_path, ["P21_P101", "P27_P21", "P101"], tags=bare)
    for name, golds in (("P27_P21", ["female"] * 2), ("P21_P101", ["physics", "chemistry"])):
        made = task(tmp_path, sets=name)
        assert [asked(case, "cross-property")[0].tags["gold"] for case in made.cases()] == golds
        assert not any("do not count" in note for note in made.notes)
    bare["Q0"] |= {"values": {"P101": ["chemistry"]}}
    write(tmp_path / "subjects.json", bare)
    case = next(iter(task(tmp_path, sets="P21_P101").cases()))
    assert asked(case, "cross-property")[0].tags["gold"] == "chemistry"


def test_who_is_asked_about_gender_has_one(tmp_path):
    """Men are asked about where a woman is edited; a tag file may say otherwise, or "none"."""
    folder(tmp_path, ["P21_P101"], tags={"Q3": {"gender": "female"}, "Q4": {"geo": ["Asia"]}})
    made = task(tmp_path)
    told = {p.tags["subject"]: p.tags.get("gender") for c in made.cases()
            for p in asked(c, "cross-subject")}  # fmt: skip
    assert told == {"Q3": "female", "Q4": "male", "Q5": "male", "Q9": "male", "Q10": "male",
                    "Q11": "male"}  # fmt: skip
    untold = task(tmp_path, tags="none")
    assert {frozenset(p.tags) for c in untold.cases() for p in asked(c, "cross-subject")} == {
        frozenset({"subject"})
    }
    (tmp_path / "subjects.json").unlink()
    (note, *_) = task(tmp_path).notes
    assert note.startswith("no tags are known but the gender of 6 of 6 subjects, by the data")


def test_two_genders_are_none():
    """Of Q0, who is edited both ways, and of Q3, of whom both are asked."""
    both = [record("P21_P101"), record("P21_P101", attribute_aux_info=["Q3"])]
    targets = {"target_true": {"str": "male"}, "target_new": {"str": "female"}}
    both[1]["requested_rewrite"] = both[0]["requested_rewrite"] | targets
    found = told_by(both)
    assert found.values == {}
    assert "Q3" not in found.genders
    assert found.genders["Q4"] == "male"


def test_the_first_cases_are_of_every_set(tmp_path):
    made = task(folder(tmp_path, ["P101", "P21_P101"], only_efficacy=["P103"]))
    write(tmp_path / "seesaw_cf_P101.json", records("P101", count=3))
    assert [case.id for case in made.cases()] == [
        "P101-0", "P103-0", "P21_P101-0", "P101-1", "P103-1", "P21_P101-1", "P101-2",
    ]  # fmt: skip


def test_edits_alone_have_none_of_the_parts(tmp_path):
    folder(tmp_path, ["P21_P101"], only_efficacy=["P103", "P21_P101"])
    every = task(tmp_path, part="cross-subject,cross-property,open-ended")
    whole = {"efficacy", "cross-subject", "cross-property", "description"}
    assert roles(every) == roles(task(tmp_path))
    assert roles(every) == {"P103": (2, {"efficacy"}), "P21_P101": (2, whole)}
    some = task(tmp_path, part="cross-subject")
    assert list(roles(some)) == ["P21_P101"]
    assert some.notes[0].startswith("P103: left out of part=cross-subject")


def test_what_the_edited_are_known_for_does_not_hang_on_the_tags(tmp_path):
    """A file of tags alone leaves the facts of the data's own as they are, and may say others."""
    folder(tmp_path, ["P21_P101"])
    other = {"Q1": {"name": "Person 1", "values": {"P101": ["physics"]}}}
    path = str(write(tmp_path / "tags.json", other))
    for tags, second in (("auto", "chemistry"), ("none", "chemistry"), (path, "physics")):
        cases = task(tmp_path, tags=tags).cases()
        golds = [asked(case, "cross-property")[0].tags["gold"] for case in cases]
        assert golds == ["physics", second]


def test_metrics_are_those_of_the_parts_and_names_are_known(tmp_path):
    with pytest.raises(UsageError, match="sets='P101,P21' names 'P21'"):
        list(task(folder(tmp_path, ["P101"]), sets="P101,P21").cases())
    error = complaint(task(tmp_path, part="cross-property"))
    assert "no set among P101 has the part cross-property" in error.cause
    both = SeesawCF(part="open-ended, cross-property")
    assert both.metrics == ("success", "cross-property", "flaws", "judging")
    assert SeesawCF.regime == Regime("batch", 0, apart="set")


def test_the_composition_counts_as_the_paper_does(tmp_path):
    """Counted by hand: of 12 people 6 have the other value of each property."""
    tables = task(folder(tmp_path, ["P101", "P21_P101"])).composition()
    assert [tuple(row.values()) for row in tables[TITLE]] == [
        ("P101", 2, 2, 12, 12, 20, 4, "0-1"),
        ("P21_P101", 2, 2, 12, 6, 20, 4, "0-1"),
        ("all", 4, 2, 24, 18, 40, 6, "0-1"),
    ]
    (tags,) = (rows for title, rows in tables.items() if title.startswith("tags of the 12 people"))
    told = [
        sum(bool(each[name]) for each in SUBJECTS.values()) for name in ("gender", "race", "geo")
    ]
    assert [row["people"] for row in tags] == told
    assert [row["percent"] for row in tags] == [100 * count / 12 for count in told]
    work = tables["attributes by category, field of work (Tables 16 to 18)"]
    assert work == [{"which": "not known: the authors' table is not beside the data"}]


def test_a_sample_is_of_each_group_and_in_order(tmp_path):
    whole = task(folder(tmp_path), sets="P21_P101", part="cross-subject")
    some = task(tmp_path, sets="P21_P101", part="cross-subject", max_prompts=5)
    for every, few in zip(whole.cases(), some.cases(), strict=True):
        prompts, kept = asked(every, "cross-subject"), asked(few, "cross-subject")
        assert len(kept) == 5
        assert [p for p in prompts if p in kept] == kept
    draws = [stratified("aabb" * 5, 4, f"{seed}/P21_P101-0") for seed in range(2)]
    assert draws[0] != draws[1]


GROUPS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=60)


@given(GROUPS, st.integers(0, 70), st.text(max_size=3))
def test_a_stratified_sample(groups, size, words):
    found = stratified(groups, size, words)
    assert found == sorted(set(found))
    assert found == stratified(groups, size, words)
    if size == 0 or size >= len(groups):
        assert found == list(range(len(groups)))
        return
    assert len(found) == size
    counts, kept = Counter(groups), Counter(groups[place] for place in found)
    if size >= len(counts):
        assert set(kept) == set(counts)
    else:
        assert set(kept.values()) == {1}
        least = min(counts[group] for group in kept)
        assert all(counts[group] <= least for group in set(counts) - set(kept))


@given(GROUPS, st.data())
def test_shares_are_those_of_a_naive_count(groups, data):
    """One seat each, and then one by one to the group that is furthest below its share."""
    counts = Counter(groups)
    if len(groups) <= len(counts):
        return
    size = data.draw(st.integers(len(counts), len(groups) - 1))
    seats = dict.fromkeys(counts, 1)
    while sum(seats.values()) < size:
        rest = [group for group in counts if seats[group] < counts[group]]
        lacking = {g: Fraction(size * counts[g], len(groups)) - seats[g] for g in rest}
        most = max(rest, key=lambda group: (lacking[group], counts[group]))
        seats[most] += 1
    got = shares(counts, size)
    assert sorted((counts[g], seats[g]) for g in counts) == sorted((counts[g], got[g]) for g in got)


def bad(case_id=1, rewrite=None, **changes):
    made = record("P21_P101", "Q1", case_id, **changes)
    made["requested_rewrite"] |= rewrite or {}
    return {name: value for name, value in made.items() if value is not ...}


LAYOUT = {
    "attribute_prompts, attribute_aux_info, attribute_aux_ent have 2, 1, 2 items, expected as many "
    "each": bad(attribute_prompts=["A", "B"], attribute_aux_info=["Q1"],
                attribute_aux_ent=["A", "B"]),
    "Object missing required field `attribute_prompts`": bad(attribute_prompts=...),
    "relation_id is 'P27', and the file is of 'P21'": bad(rewrite={"relation_id": "P27"}),
}  # fmt: skip
"""What a file is refused for."""
CONTENT = {
    "target_new is the true value 'female', so nothing is edited": bad(
        rewrite={"target_new": {"str": "female ", "id": "Q1"}}
    ),
    "generation_prompts has none on the other property": bad(
        generation_prompts=["Person 1 is"] * 5
    ),
}
"""What a record is of no use for."""


@pytest.mark.parametrize("problem", LAYOUT)
def test_a_record_that_is_not_of_the_layout_is_named(tmp_path, problem):
    path = write(tmp_path / "seesaw_cf_P21_P101.json", [record("P21_P101"), LAYOUT[problem]])
    assert complaint(task(tmp_path)).cause == f"{path}: record 2: {problem}"


@pytest.mark.parametrize("problem", CONTENT)
def test_a_record_of_no_use_is_a_case_that_says_why(tmp_path, problem):
    write(tmp_path / "seesaw_cf_P21_P101.json", [record("P21_P101"), CONTENT[problem]])
    good, spoilt = task(tmp_path).cases()
    assert good.problem == ""
    assert spoilt == Case(
        "P21_P101-1", (), (), problem=f"seesaw_cf_P21_P101.json: record 2: {problem}"
    )


def test_data_that_are_not_there(tmp_path):
    assert "has no file seesaw_cf_*.json" in complaint(task(tmp_path)).cause
    assert "has no name of a set" in complaint(task(write(tmp_path / "data.json", []))).cause
    assert "there is no file" in complaint(task(folder(tmp_path), tags="nowhere.json")).cause


@pytest.mark.parametrize("said", [[], {"P101": ["a|b"]}, {"P999": ["a"]}])
def test_candidates_that_are_not_of_the_layout(tmp_path, said):
    folder(tmp_path, ["P101"])
    path = write(tmp_path / "candidates.json", said)
    assert complaint(task(tmp_path)).cause.startswith(f"{path} is not of the layout: ")
