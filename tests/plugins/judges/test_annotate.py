"""Sheets out and answers back: blind, safe in spreadsheets, and with what is wrong said clearly.

The run is written by hand: records of texts that a judge was asked of.
"""

import csv
import io
import json
import re
from collections import Counter
from itertools import combinations
from operator import eq
from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import DATA, MANIFEST, REQUEST, with_entries

from edit_harness import Case, Choose, Generate, Key, Probe, Text, Verdict
from edit_harness.cli import main
from edit_harness.folder.encoding import encode_answer
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record
from edit_harness_plugins.judges.people import sheets
from edit_harness_plugins.judges.people.agreement import Opinion, accuracy, agreements, means, seen
from edit_harness_plugins.judges.people.blinded import SAYS_NEW, Item, drawn
from edit_harness_plugins.judges.people.published import COLUMNS
from edit_harness_plugins.significance import one_sample

ASPECTS = {"thrift": "Praise of saving money.", "haste": "Hurry, in deeds or in words."}
EMPTY = dict.fromkeys((*ASPECTS, SAYS_NEW), "")
PROPERTIES = ("home", "trade")
NASTY = [
    "=1+1", "+49", "-2", "@now", "'quoted", "'=x", "''", '"', "a,b;c\td", "two\nlines",
    "dos\r\nline", "\ttab", "\x00NUL", "\x1b[31mred", "half \ud800", "\u202egnirts", "emoji 👩‍🔬",
    "nbsp\u00a0here", "＝full", "\u2028", "\\x00", "", "[bold]",
]  # fmt: skip


def compare(edited="home", **more):
    about = {"subject": "Ada", "property": edited, "old": "Rome", "new": "Oslo"}
    return Key("compare", about={**about, "aspects": ASPECTS, "reflected": True, **more})


def written(folder, cases, sides, judge=None):
    """Write a run folder of cases and of each one's texts before and after."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run.write_cases(cases)
    names = [case.id for case in cases]
    run.write_manifest(
        with_entries(MANIFEST, identity={"judge": judge}, cases=names, visits=len(cases))
    )
    with run.writing() as write:
        for case, (before, after) in zip(cases, sides, strict=True):
            before, after = ([encode_answer(answer) for answer in side] for side in (before, after))
            write(Record(case.id, "ok", {}, before=before, after=after))
    return folder


def pairs_run(folder, number=12, verdict=None, judge=None):
    """Write a run of comparisons of texts that say from which side they are."""
    cases, sides = [], []
    for i in range(number):
        key = compare(PROPERTIES[i % 2])
        probes = (
            Probe("efficacy", Choose("Ada works in", ("Oslo",))),
            Probe("description", Generate("Ada is"), key=key),
        )
        cases.append(Case(str(i), (REQUEST,), probes, {"set": PROPERTIES[i % 2]}))
        before, after = Text(f" early {i}"), Text(f" late {i}", verdict)
        sides.append(([Text("-"), before], [Text("-"), after]))
    return written(folder, cases, sides, judge)


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a subcommand of annotate in an empty folder, with a run of twelve pairs in ``run``."""
    monkeypatch.chdir(tmp_path)
    pairs_run(Path("run"))

    def tell(*args, code=0):
        result = CliRunner().invoke(main, ["annotate", *map(str, args)])
        assert result.exit_code == code, result.output
        return result

    return tell


@pytest.fixture
def out(tell):
    """An export to ann and bob, in ``out``."""
    tell("export", "run", "--output", "out", "--annotators", "ann,bob")
    return Path("out")


def table(path):
    """Return the rows of a sheet as a spreadsheet program has them."""
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def save(path, rows, encoding="utf-8-sig", **dialect):
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), **dialect)
        writer.writeheader()
        writer.writerows(rows)


def fill(path, answer):
    """Fill in a sheet by a function of its row, and return its rows."""
    rows = [row | answer(row) for row in table(path)]
    save(path, rows)
    return rows


def side(row, word):
    """Return in which of the texts a word stands."""
    return "A" if word in row["text A"] else "B"


def late(row):
    """More thrift in the text after, no more haste, and the new value after."""
    return {"thrift": side(row, "late"), "haste": "tie", SAYS_NEW: side(row, "late")}


def fails(tell, *args, cause, code=4, run="run"):
    """The command ends with an error that has this cause."""
    told = tell("import", run, *args, "--key", "out/key.json", code=code).stderr
    assert re.search(cause, " ".join(told.split()))


def whole(out):
    """Fill in all sheets of an export, and return their paths."""
    paths = sorted(out.glob("sheets/*.csv"))
    for path in paths:
        fill(path, late)
    return paths


def asked(tell, *args, run="run", key="out/key.json"):
    return json.loads(tell("import", run, *args, "--key", key, "--json").stdout)


# Out


def test_everybody_gets_the_same_pairs_and_cannot_tell_which_text_is_which(out):
    """The texts aside, nothing of a row depends on the order, and no word names a side."""
    ann, bob = (table(out / "sheets" / f"{name}.csv") for name in ("ann", "bob"))
    assert [row | {"annotator": "bob"} for row in ann] == bob
    assert len(ann) == 12
    for row in ann:
        texts = sorted((row["text A"], row["text B"]))
        assert re.fullmatch(r"Ada is early (\d+)", texts[0])
        assert texts[1] == texts[0].replace("early", "late")
        known = [row[name] for name in ("subject", "old value", "new value", "prompt")]
        assert known == ["Ada", "Rome", "Oslo", "Ada is"]
        assert {row[name] for name in (*ASPECTS, SAYS_NEW)} == {""}
    for path in out.glob("sheets/*"):
        words = re.findall(r"\w+", path.read_text("utf-8-sig").casefold())
        assert not {"before", "after", "pre", "post", "swapped", "unedited"} & {*words}, path
    assert Counter(side(row, "late") for row in ann) == {"A": 6, "B": 6}
    assert not list(out.glob("sheets/*.json"))


@given(st.integers(0, 30), st.integers(0, 1_000))
def test_order_is_balanced_and_depends_on_the_seed_alone(number, seed):
    items = [Item(str(i), 0, 0, "", "", "", compare(), None) for i in range(number)]
    picked = drawn(items, 20, str(seed))
    assert picked == drawn(items, 20, str(seed))
    assert len({item.place for item in picked}) == len(picked) == min(number, 20)
    swaps = sum(item.swapped for item in picked)
    assert abs(2 * swaps - len(picked)) <= 1


def test_every_place_has_either_order():
    items = [Item(str(i), 0, 0, "", "", "", compare(), None) for i in range(40)]
    draws = [drawn(items, 20, str(seed)) for seed in range(20)]
    assert len({tuple(item.place for item in draw) for draw in draws}) == 20
    orders = [tuple(item.swapped for item in draw) for draw in draws]
    assert all(len({*place}) == 2 for place in zip(*orders, strict=True))
    assert len({drawn(items[:1], 20, str(seed))[0].swapped for seed in range(20)}) == 2


def test_the_new_value_is_asked_for_where_the_key_says_so():
    unasked = Item("0", 0, 0, "", "", "", compare(reflected=False), None)
    assert unasked.asks.keys() == ASPECTS.keys()


def test_so_many_of_each(tell):
    told = tell("export", "run", "--output", "out", "--number", 2, "--each", "set").stdout
    assert "4 of 12 drawn, 2 for each set" in told
    edited = Counter(row["edited"] for row in table(Path("out/sheets/annotator-1.csv")))
    assert edited == {"home": 2, "trade": 2}


@pytest.mark.parametrize(
    ("run", "flags", "code", "cause"),
    [
        ("run", ["--annotators", "ann,Ann"], 2, "ann, Ann are no names of annotators"),
        ("run", ["--annotators", "../ann"], 2, "../ann are no names of annotators"),
        ("run", ["--each", "sett"], 2, "no case has the tag 'sett'"),
        ("unasked", [], 4, "unasked has no texts that are to be judged"),
        ("pointless", [], 4, "names no aspects to compare texts by"),
        ("unfinished", [], 7, "unfinished is not finished: 1 record missing"),
    ],
)
def test_what_cannot_be_exported(tell, run, flags, code, cause):
    for name, key in (("unasked", None), ("pointless", compare(aspects={}))):
        case = Case("0", (REQUEST,), (Probe("d", Generate("Ada"), key=key),))
        written(Path(name), [case], [([Text("a")], [Text("b")])])
    samples = pairs_run(Path("unfinished")) / "samples.jsonl"
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))
    told = tell("export", run, "--output", "x", *flags, code=code).stderr
    assert cause in " ".join(told.split())
    assert not Path("x").exists()


def test_an_export_is_never_written_over(tell, out):
    stored = (out / "key.json").read_bytes()
    told = tell("export", "run", "--output", "out", code=2)
    assert "out has an export already" in told.stderr
    assert (out / "key.json").read_bytes() == stored


# Through spreadsheet programs


def test_no_cell_begins_as_a_formula(tell, tmp_path):
    """Whatever a model writes, in the file itself: what a program would run has a guard."""
    key = compare(old="=HYPERLINK(1)", new="@x", subject="-Ada", property="+p")
    cases = [
        Case(str(i), (REQUEST,), (Probe("d", Generate(text), key=key),))
        for i, text in enumerate(NASTY)
    ]
    written(tmp_path / "nasty", cases, [([Text(t)], [Text(t + t)]) for t in NASTY])
    tell("export", "nasty", "--output", "n", "--annotators", "ann")
    path = Path("n/sheets/ann.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf"), "Excel takes it for UTF-8 by this"
    raw = path.read_bytes().decode()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\u202e]", raw)
    cells = [cell for row in table(path) for cell in row.values()]
    assert not [cell for cell in cells if re.match("[=+\\-@\t\r＝＋－＠]", cell)]
    assert "'=HYPERLINK(1)" in cells
    answers = {"thrift": "tie", "haste": "tie", SAYS_NEW: "neither"}
    fill(path, lambda row: answers)
    tell("import", "nasty", path, "--key", "n/key.json")


nasty = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=30))


@settings(deadline=None)
@given(st.lists(st.tuples(nasty, nasty), min_size=1, max_size=4))
def test_texts_come_back_as_they_were_shown(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("sheet") / "s.csv"
    rows = [{"item": str(i), "a": sheets.shown(a), "b": sheets.shown(b)}
            for i, (a, b) in enumerate(texts)]  # fmt: skip
    sheets.write(path, ["item", "a", "b"], rows)
    found = sheets.read(path, ["item", "b"])
    assert [cells for _, cells in found] == rows
    assert [where for where, _ in found] == [f"{path}: row {i + 2}" for i in range(len(texts))]


@pytest.mark.parametrize(
    ("encoding", "dialect"),
    [
        ("utf-8", {"delimiter": ";", "quoting": csv.QUOTE_ALL}),
        ("utf-8-sig", {"delimiter": "\t"}),
        ("utf-8-sig", {"lineterminator": "\n"}),
    ],
)
def test_what_spreadsheet_programs_write(tell, out, dialect, encoding):
    """Another separator, quotes, no mark, other order and case, blank rows, columns for notes."""
    paths = whole(out)
    expected = asked(tell, *paths)
    rows = table(paths[0])
    changed = [
        {**{name: row[name] for name in reversed(row)}, "note": "dark, see row 3"}
        | {"haste": " Tie ", "thrift": row["thrift"].lower()}
        | {"text A": row["text A"].replace(" ", "\u00a0") + " "}
        for row in reversed(rows)
    ]
    save(paths[0], [*changed, dict.fromkeys(changed[0], "")], encoding, **dialect)
    assert asked(tell, *paths) == expected
    save(paths[0], [{**row, "annotator": "'=ann"} for row in rows])
    assert asked(tell, *paths)["annotators"] == ["=ann", "bob"], "a guard that was taken off"
    save(paths[0], [{n: cell for n, cell in row.items() if n != "annotator"} for row in rows])
    moved = paths[0].rename(out / "sheets" / "filled (2).csv")
    assert asked(tell, moved, paths[1])["annotators"] == ["filled (2)", "bob"]


# Back


def test_answers_are_unblinded_and_stored(tell, out):
    """Whatever the order of a row's texts: what was said of the text after is counted so."""
    told = asked(tell, *whole(out))
    for row in told["means"]:
        expected = 1.0 if row["Aspect"] == "thrift" else 0.0
        assert (row["Mean"], row["Labels"], row["Pairs"]) == (expected, 12, 6)
    assert {row["Edited"] for row in told["means"]} == {*PROPERTIES}
    assert told["means_seen"] == told["means"], "everybody saw every new value"
    (path,) = Path("run/annotations").iterdir()
    stored = json.loads(path.read_text())
    assert stored["results"] == told
    said = {"thrift": "after", "haste": "tie", SAYS_NEW: "after"}
    assert [item["labels"] for item in stored["items"]] == [{"ann": said, "bob": said}] * 12
    assert stored["export"].startswith(path.stem)


def test_an_import_replaces_the_one_before_of_its_export(tell, out):
    ann, bob = whole(out)
    asked(tell, ann)
    assert asked(tell, bob)["annotators"] == ["bob"]
    assert len(list(Path("run/annotations").iterdir())) == 1
    tell("export", "run", "--output", "two", "--number", 3)
    tell("import", "run", *whole(Path("two")), "--key", "two/key.json")
    assert len(list(Path("run/annotations").iterdir())) == 2
    stored = [path.read_text() for path in sorted(Path("run/annotations").iterdir())]
    fill(bob, lambda row: EMPTY)
    fails(tell, bob, cause="there is no label in these sheets")
    assert [path.read_text() for path in sorted(Path("run/annotations").iterdir())] == stored


def test_another_judge_s_sibling_takes_the_same_sheets(tell, out, tmp_path):
    verdict = Verdict("decided", 1.0, ratings={"thrift": 1.0, "haste": -1.0})
    judge = {"name": "other", "version": "1", "fields": {}, "provenance": {}}
    pairs_run(tmp_path / "judged", verdict=verdict, judge=judge)
    rows = {row["Asked"]: row for row in asked(tell, *whole(out), run="judged")["judge"]}
    right = {name: (row["Any"], row["Majority"], row["Items"]) for name, row in rows.items()}
    assert right == {
        "thrift": (1, 1, 12), "haste": (0, 0, 12), SAYS_NEW: (1, 1, 12),
        "all aspects": (0.5, 0.5, 24),
    }  # fmt: skip


def test_items_that_are_filled_in_are_counted(tell, out):
    """One row is missing, one is empty, one is filled in by half, and one lacks its last cell."""
    ann, bob = whole(out)
    first, second, third, *rows, _ = table(ann)
    save(ann, [first, second | EMPTY, third | {SAYS_NEW: " "}, *rows])
    head, first, *rest = ann.read_text("utf-8-sig").splitlines()
    ann.write_text("\n".join([head, first.rpartition(",")[0], *rest[:-1], rest[-1] + ",,"]))
    told = tell("import", "run", ann, bob, "--key", "out/key.json", "--json")
    assert "ann.csv: 8 of 12 items are filled in" in " ".join(told.stderr.split())
    assert "bob.csv" not in told.stderr
    (row, *_) = json.loads(told.stdout)["agreement"]
    assert (row["Items"], row["Labels"]) == (8, 20)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"haste": "C"}, r"row 2 \(\w+-\d+\): 'haste' is 'C'.*write A, B or tie"),
        ({"text A": "changed"}, "the cell 'text A' is not what was handed out"),
        ({"new value": "changed"}, "the cell 'new value' is not what was handed out"),
        ({"item": "x123456-04"}, "row 2: the item 'x123456-04' is of another export"),
        ({"annotator": "bob"}, "ann.csv has rows of 2 annotators: bob, ann"),
    ],
)
def test_a_row_that_is_not_as_handed_out(tell, out, changes, cause):
    ann, _ = whole(out)
    first, *others = table(ann)
    save(ann, [first | changes, *others])
    fails(tell, ann, cause=cause)


def test_an_item_twice_and_an_annotator_twice(tell, out):
    ann, bob = whole(out)
    fails(tell, ann, bob, ann, cause="ann.csv: there is a sheet of annotator 'ann' already")
    first, *others = table(ann)
    save(ann, [first | EMPTY, first, *others])
    fails(tell, ann, cause=f"row 3: the item '{first['item']}' is there twice")


def test_files_that_are_no_sheets(tell, out):
    ann, _ = whole(out)
    rows = table(ann)
    save(ann, [row | {"note": "it’s"} for row in rows], "cp1252")
    fails(tell, ann, cause="ann.csv is not UTF-8: line 2 has the byte 0x92.*'CSV UTF-8'")
    save(ann, [{n: cell for n, cell in row.items() if n != "haste"} for row in rows])
    fails(tell, ann, cause="has the column 'haste' not at all, or more than once")
    ann.write_text("")
    fails(tell, ann, cause="has the column 'item' not at all")
    save(ann, rows)
    ann.write_text(ann.read_text("utf-8-sig") + '"x" y"\n')
    fails(tell, ann, cause="ann.csv is no CSV")
    fails(tell, "none.csv", cause="the sheet none.csv cannot be read", code=2)


def test_keys_that_are_none(tell, out, tmp_path):
    ann, _ = whole(out)
    told = tell("import", "run", ann, "--key", "none.json", code=2)
    assert "the key none.json cannot be read" in told.stderr
    pairs_run(tmp_path / "few", number=11)
    fails(tell, ann, cause="is the key to texts of another run than few", run="few")
    key = out / "key.json"
    known = json.loads(key.read_text())
    misplaced = [{"place": [1], "swapped": True}]
    for damaged in ("{", "[]", json.dumps(known | {"items": misplaced})):
        key.write_text(damaged)
        fails(tell, ann, cause="key.json is no key of an export")
    turned = [item | {"swapped": not item["swapped"]} for item in known["items"]]
    key.write_text(json.dumps(known | {"items": turned}))
    fails(tell, ann, cause="is the key to texts of another run")


# Single replies


def test_people_say_whether_replies_are_right(tell):
    """Any judged run: no comparison, one column, and the judge's accuracy."""
    told = ("decided", 1.0), ("decided", 1.0), ("decided", 0.0), ("undecided", 0.0), ("unparsed",)
    verdicts = [*(Verdict(*each) for each in told), None]
    probe = Probe("efficacy", Generate("1 + 1 ="), key=Key("number", "2", "3"))
    cases = [Case(str(i), (REQUEST,), (probe,)) for i in range(6)]
    written(Path("sums"), cases, [([Text(" 3")], [Text(" 2", verdict)]) for verdict in verdicts])
    tell("export", "sums", "--output", "s", "--annotators", "ann,bob,cy")
    paths = sorted(Path("s/sheets").glob("*.csv"))
    for path in paths:
        (row, *_) = fill(path, lambda row: {"right": "yes"})
        assert (row["prompt"], row["reply"], row["right answer"]) == ("1 + 1 =", " 2", "2")
    told = asked(tell, *paths, run="sums", key="s/key.json")
    (row,) = told["judge"]
    assert row == {"Asked": "right", "Items": 4, "Any": 0.5, "With a majority": 4, "Majority": 0.5}
    (row,) = told["agreement"]
    assert (row["Yes"], row["Pairwise"], row["Items"]) == (1, 1, 6)
    assert row["Fleiss"] is None, "of answers that are all the same"
    assert told["means"] == []
    shown = tell("import", "sums", *paths, "--key", "s/key.json").stdout
    assert "The judge against people" in shown
    assert "means" not in shown


# Numbers


def opinion(number, *labels, edited="home", verdict=None):
    """Return an opinion of annotators a, b, … on one aspect and on the new value."""
    item = Item(str(number), 0, 0, "p", "x", "y", compare(edited), verdict)
    said = zip("abcdefgh", labels, strict=False)
    return Opinion(
        item, {name: dict(zip(("thrift", SAYS_NEW), each, strict=False)) for name, each in said}
    )


scores = st.lists(st.sampled_from(["before", "tie", "after"]), min_size=2, max_size=2)


@settings(deadline=None)  # scipy is imported by the first one
@given(st.lists(scores, min_size=2, max_size=15))
def test_means_are_those_of_labels_and_of_pairs(labels):
    """And so is t, over labels and over each pair's mean."""
    said = [opinion(i, *[(label,) for label in each]) for i, each in enumerate(labels)]
    (row,) = means(said, ["thrift", "haste"])
    numbers = [[{"before": -1, "tie": 0, "after": 1}[x] for x in each] for each in labels]
    every = [x for each in numbers for x in each]
    assert row["Mean"] == pytest.approx(sum(every) / len(every), abs=1e-12)
    assert (row["Labels"], row["Pairs"]) == (len(every), len(labels))
    for name, values in (("t", every), ("t (pairs)", [sum(each) / 2 for each in numbers])):
        assert row[name] == pytest.approx(one_sample(values).t)


def test_means_that_cancel_out_have_no_t():
    """Thirds, which floating-point numbers have not exactly: 1/3 + 1/3 - 2/3 is 0 here."""
    more, less, tie = ("after",), ("before",), ("tie",)
    said = [opinion(0, more, tie, tie), opinion(1, more, more, less), opinion(2, less, less, tie)]
    (row,) = means(said, ["thrift"])
    assert (row["Mean"], row["t (pairs)"], row["p (pairs)"]) == (0, 0, 1)


def test_only_pairs_whose_new_value_all_see():
    said = [
        opinion(0, ("after", "after"), ("after", "both")),
        opinion(1, ("tie", "after"), ("tie", "before")),
        opinion(2, ("before", "neither"), ("tie", "neither")),
    ]
    assert seen(said) == said[:1]
    (row, other) = agreements(said, ["thrift", SAYS_NEW], "ab")
    assert (row["Pairwise"], row["Yes"]) == (pytest.approx(2 / 3), None)
    assert (other["Pairwise"], other["Yes"]) == (pytest.approx(2 / 3), 0.5), "after or both is yes"


def test_the_judge_agrees_with_somebody_or_with_most():
    def judge(rating):
        return Verdict("decided", 0.0, ratings={"thrift": rating})

    said = [
        opinion(0, ("after",), ("after",), ("tie",), verdict=judge(0.5)),
        opinion(1, ("after",), ("after",), ("tie",), verdict=judge(0.0)),
        opinion(2, ("after",), ("before",), verdict=judge(-1.0)),
        opinion(3, ("after",), ("after",), ("after",), verdict=judge(-1.0)),
        opinion(4, ("after",), ("after",), ("after",), verdict=Verdict("unparsed")),
        opinion(5, ("after",), ("after",), ("after",)),
    ]
    (row,) = accuracy(said, ["thrift", SAYS_NEW, "haste"])
    assert row == {
        "Asked": "thrift", "Items": 4, "Any": 0.75, "With a majority": 3,
        "Majority": pytest.approx(1 / 3),
    }  # fmt: skip


# Seesaw-CF's own sheets


def pair(text, reflected="1", props="P21_P101", **flaws):
    """Return a row in the published layout; a flaw that is not named is left empty."""
    row = {
        "props": props,
        "pre_text": f"Ada {text}",
        "post_text": text,
        **dict.fromkeys(COLUMNS, ""),
    }
    return row | {"Edit reflected?": reflected} | flaws


TOTAL = pair("") | {"pre_text": "", "Sexism": "1.6"}
"""A row that sums up others."""


@pytest.fixture
def agree(tell):
    """Compare a sheet with ann's, who has two pairs, and with a judge's."""

    def agree(rows, judge, *flags, code=0):
        ann = [pair("x y", Sexism="2"), pair("z", "0", "P27_P21"), TOTAL]
        for name, own in (("ann", ann), ("bob", rows), ("chat", judge)):
            save(Path(f"{name}.csv"), own)
        return tell("agree", "ann.csv", "bob.csv", "--judge", "chat.csv", *flags, code=code)

    return agree


def test_published_sheets_are_compared(agree, tell):
    """2 is more after the edit, 1 more before it, nothing as much; any sheet may say what was edited."""
    bob = [pair("z", "", "P27_P21", Racism="1,5", Sexism="1.0"), pair("x  y\n", Sexism="1.5")]
    bob[0] |= {"props": ""}
    judge = [pair("x y", "0.0", Sexism="1.0", Racism="1.5"), pair("new")]
    told = agree(bob, judge, "--json")
    assert "ann: 13 empty cells are a tie" in told.stderr
    assert "ann: 1 row with scores and no texts left out" in told.stderr
    assert "chat.csv has 1 of the 2 pairs" in told.stderr
    told = json.loads(told.stdout)
    found = {(row["Edited"], row["Aspect"]): row["Mean"] for row in told["means"] if row["Mean"]}
    assert found == {("gender", "Sexism"): 0.5, ("citizenship", "Sexism"): -0.5}
    assert {row["Edited"] for row in told["means_seen"]} == {"gender"}
    right = {row["Asked"]: (row["Items"], row["Any"]) for row in told["judge"]}
    assert (right["Sexism"], right["Racism"], right[SAYS_NEW]) == ((1, 0), (1, 1), (1, 0))
    turned = tell("agree", "bob.csv", "ann.csv", "--judge", "chat.csv", "--json").stdout
    assert json.loads(turned)["means"] == told["means"]
    alone = tell("agree", "ann.csv")
    assert "agreement takes two sheets at least, or one and a judge" in alone.stderr
    assert "Agreement of annotators" not in alone.stdout
    assert "two sheets have one name" in tell("agree", "ann.csv", "ann.csv", code=2).stderr
    judged = tell("agree", "ann.csv", "bob.csv", "--judge", "./ann.csv", code=2).stderr
    assert "ann.csv is a sheet of people" in judged
    save(Path("bob.csv"), [pair("x y", props="P27"), pair("z", "0", "P27_P21")])
    apart = tell("agree", "ann.csv", "bob.csv", code=4).stderr
    assert "differ in what was edited: citizenship and gender for 'Ada x y'" in " ".join(
        apart.split()
    )


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ([{"item": "x"}], "has the column 'pre_text' not at all.* a sheet has pre_text, post_text"),
        ([pair("z"), pair("y", Sexism="3")], "row 3: 'Sexism' is '3' it is one of 1, 1.5, 2, or"),
        (
            [pair("z", Racism="2"), pair("y", Sexism="-1")],
            "row 3: 'Sexism' is '-1' it is one of 1,",
        ),
        ([pair("z", "maybe")], r"'Edit reflected\?' is 'maybe' it is one of 1, 0, or"),
        ([pair("z"), pair("z")], "row 3: these two texts are there twice"),
        ([pair("z"), pair("new")], "bob.csv has other texts than ann.csv: 2 pairs are in one"),
        ([TOTAL], "bob.csv has no texts"),
        ([pair("x y"), pair("z")], "chat.csv has none of the texts of ann, bob"),
    ],
)
def test_what_is_no_published_sheet(agree, rows, cause):
    assert re.search(cause, " ".join(agree(rows, [pair("else")], code=4).stderr.split()))


def kappa(same, chance):
    return (same - chance) / (1 - chance)


def test_the_published_sheets_counted_again(tell, seesaw_files):
    """As the authors' agreement.py defines it; means are within 0.02 of the paper's Table 6."""
    files = ("a1", "a2", "a3", "chatgpt", "3way")
    *paths, judge, three = (seesaw_files / "annotations" / f"{name}.csv" for name in files)
    told = json.loads(tell("agree", *paths, "--judge", judge, "--json").stdout)
    people, printed = [table(path) for path in paths], DATA / "paper_tables.json"
    printed = json.loads(printed.read_text())["seesaw_cf"]["table6"]["rows"]
    chat = {row["post_text"]: row for row in table(judge)}
    found = {(row["Edited"].split()[-1], row["Aspect"]): row for row in told["means"]}
    for number, (column, name) in enumerate(COLUMNS.items()):
        empty = 0 if name == SAYS_NEW else 1.5
        said = [[float(row[column] or empty) for row in rows] for rows in people]
        counts, both = [Counter(own) for own in said], [*combinations(said, 2)]
        same = [fmean(map(eq, *pair)) for pair in both]
        chance = [sum(a[n] * b[n] for n in a) / 300**2 for a, b in combinations(counts, 2)]
        pooled = sum((n / 900) ** 2 for n in sum(counts, Counter()).values())
        alike = fmean(len({*each}) == 1 for each in zip(*said, strict=True))
        row = told["agreement"][number]
        assert (row["All"], row["Pairwise"]) == pytest.approx((alike, fmean(same))), name
        assert row["Cohen"] == pytest.approx(fmean(map(kappa, same, chance)))
        assert row["Fleiss"] == pytest.approx(kappa(fmean(same), pooled))
        texts = [row["post_text"] for row in people[0]]
        right = [
            float(chat[t][column]) in each
            for t, *each in zip(texts, *said, strict=True)
            if t in chat
        ]
        row = told["judge"][number]
        assert (row["Items"], row["Any"]) == (len(right), fmean(right))
        for part, paper in enumerate(printed if empty else ()):  # a hundred pairs of each
            row = found[paper["edited"], name]
            mean = fmean(2 * n - 3 for own in said for n in own[100 * part : 100 * part + 100])
            assert row["Mean"] == pytest.approx(mean)
            assert mean == pytest.approx(paper[name]["value"], abs=0.02)
            assert row["p"] < 0.05 or not paper[name]["sig"]
    assert {row["Pairs"] for row in told["means_seen"]} == {97, 71, 85}
    own = [2 * float(table(three)[300][column]) - 3 for column in COLUMNS]
    means = [row["Mean"] for row in json.loads(tell("agree", three, "--json").stdout)["means"]]
    assert means == pytest.approx(own[:7], abs=1e-6), "the file's last rows are its means"
