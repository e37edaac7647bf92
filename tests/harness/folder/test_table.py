"""What a log is read into is what its rows say, read one by one and whole."""

import json
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import MANIFEST, REQUEST, with_entries

from edit_harness import Case, Measure, Metric
from edit_harness.errors import RunFolderError
from edit_harness.folder import log
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import STATUSES, Record
from edit_harness.folder.table import Chosen, RunTable
from edit_harness.run import estimates
from edit_harness.run.controls import ID
from edit_harness.run.results import Results
from edit_harness_plugins.reading import statuses_of

NAMES = ("a", "b", 'q"\\', "ü", "10", "c")


class Means(Metric):
    """Means of whatever it is given."""

    measures: ClassVar = {"x": Measure("x"), "y": Measure("y")}

    def measure(self, case, before, after):
        return {}

    def tables(self, cases, columns):
        return {
            "sums": [{"case": case.id} for case in cases],
            "n": [{n: len(v)} for n, v in columns.items()],
        }


class Middle(Means):
    """A summary that means do not suffice for."""

    measures: ClassVar = {}

    def summarize(self, columns):
        return {f"middle_{n}": float(np.median(np.nan_to_num(v))) for n, v in columns.items()}

    def tables(self, cases, columns):
        return {}


METRICS = {"m": Means(), "n": Middle()}
number = st.one_of(st.none(), st.floats(-1, 1), st.sampled_from([0.0, 1.0, -0.0]))
values = st.dictionaries(
    st.sampled_from(["m", "n"]),
    st.dictionaries(st.sampled_from(["pre_x", "post_x", "post_y", "z"]), number),
)
answers = st.lists(
    st.one_of(
        st.just({"text": 'a], "edit": {'}),
        st.just({"text": "t", "after": [1], "edit": {}}),
        st.just({"text": "t", "verdict": {"status": "pending", "score": None, "note": "later"}}),
        st.just({"text": "t", "verdict": {"status": "unparsed", "score": None, "served": "s"}}),
        st.just([0.5, None, 3]),
    ),
    max_size=2,
)
diagnostics = st.sampled_from(
    [{}, {"loss": 0.5}, {"deep": {"values": {"m": 1}}}, {"text": 'a": "crc": '}, {"l": [1, {"a": 2}]}]
)  # fmt: skip
rows = st.builds(
    Record,
    case=st.sampled_from([*NAMES, "not planned", ID]),
    status=st.sampled_from(STATUSES),
    values=values,
    state=st.integers(0, 3),
    before=answers,
    after=answers,
    edit=diagnostics,
    noop=st.booleans(),
    seconds=st.sampled_from([{}, {"edit": 0.5, "evaluate": 1e-7}]),
    message=st.sampled_from(["", "it failed", 'a "quoted": one']),
)
modes = st.sampled_from(
    [
        {"mode": "single", "checkpoints": []},
        {"mode": "batch", "size": 2, "checkpoints": []},
        {"mode": "sequential", "immediate": True, "checkpoints": [2]},
    ]
)


@st.composite
def logs(draw):
    """Return rows of a log, some tried again or said again, and withdrawals among them."""
    found, tries = [], {}
    for row in draw(st.lists(rows, max_size=12)):
        kind = draw(st.sampled_from(["row", "row", "row", "again", "withdraws"]))
        if kind == "withdraws" and found:
            ends = sorted(draw(st.integers(0, len(found) - 1)) for _ in range(2))
            found.append({"withdraws": ends, "why": "a leak"})
        if kind == "again" and found and "case" in found[-1]:
            found.append(found[-1])
        tries[row.visit] = tries.get(row.visit, 0) + 1
        found.append({**row.row, "try": tries[row.visit]})
    return found


def made(path, rows, regime=None):
    folder = RunFolder(path)
    folder.write_cases(Case(name, (REQUEST,), ()) for name in NAMES)
    identity = {"regime": regime or {"mode": "single"}}
    folder.write_manifest(with_entries(MANIFEST, identity=identity, cases=list(NAMES), visits=20))
    lines = [log.encoded(seq, folder.mark, row) for seq, row in enumerate(rows)]
    folder.samples.write_bytes(b"".join(lines))
    return folder


def one_by_one(folder):
    """Return the records that count, from rows that are read whole."""
    rows, withdrawn = {}, set()
    for line in log.scan(folder.samples):
        row = json.loads(line.data)
        if "withdraws" in row:
            first, last = row["withdraws"]
            withdrawn.update(range(first, last + 1))
        else:
            visit = row["case"], row["state"]
            rows.setdefault(visit, []).append((line.seq, Record.read(line.data)))
    standing = ([r for seq, r in each if seq not in withdrawn] for each in rows.values())
    return [each[-1] for each in standing if each]


@given(logs(), modes)
def test_records_numbers_and_results_are_those_of_rows_that_are_read_whole(
    tmp_path_factory, found, regime
):
    folder = made(tmp_path_factory.mktemp("run"), found, regime)
    plain = one_by_one(folder)
    table = folder.records()
    assert [r.row for r in table] == [r.row for r in plain]
    assert [table[i].row for i in range(len(plain))] == [r.row for r in plain]
    assert RunTable.of(table) is table
    assert (table.cases, table.visits) == ([r.case for r in plain], len(plain))
    assert table.noops == sum(r.noop for r in plain)
    assert list(table.without("error")) == [r for r in plain if r.status != "error"]
    assert list(statuses_of(folder).items()) == [(r.visit, r.status) for r in plain]
    run = Results.read(folder, METRICS)
    kept = [r for r in plain if r.case in {*NAMES, ID}]
    same = Results(folder, METRICS, run.manifest, kept)
    assert run.everything == kept
    assert run.records == same.records == by_hand(kept)
    assert list(run.estimates) == list(same.estimates)
    np.testing.assert_equal(run.results(), same.results())
    for name in METRICS:
        one, other = (estimates.valued(each, name) for each in (run.records, by_hand(kept)))
        expected = [r for r in by_hand(kept) if r.status != "invalid_case" and r.values.get(name)]
        assert one == other == expected
        named(one.columns(name), by_row(expected, name))
    assert run.pending == sum(r.verdicts["pending"] for r in kept)
    assert run.served == sorted({"s" for r in kept if r.verdicts["unparsed"]})
    assert [r.case for r in run.failures] == [r.case for r in by_hand(kept) if r.status != "ok"]


def by_hand(records):
    found = {}
    for record in sorted(records, key=lambda record: record.state):
        found[record.case] = record
    return [found[name] for name in NAMES if name in found]


def by_row(records, metric):
    rows = [record.values[metric] for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return {n: np.array([row.get(n, math.nan) for row in rows], dtype=float) for n in names}


def named(one, other):
    assert list(one) == list(other), "names stand in the order in which they first come"
    np.testing.assert_equal(one, other)


def record(case, value=1.0, **fields):
    return Record(case, "ok", {"m": {"post_x": value}}, **fields)


def test_two_answers_of_one_try_are_a_conflict(tmp_path):
    """But where a judge found the key to be of no use."""
    useless = made(tmp_path / "judged", [record("a").row, Record("a", "invalid_case", {}).row])
    assert [r.status for r in useless.records()] == ["invalid_case"]
    folder = made(tmp_path, [record("a", after=[1]).row, record("a", after=[2]).row])
    for read in (folder.records, lambda: statuses_of(folder)):
        with pytest.raises(RunFolderError, match="rows 0 and 1 say different things of case a"):
            read()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: line.replace(b"1.0", b"NaN"), "NaN is no number"),
        (lambda line: line.replace(b"1.0", b'"many"'), "Expected `float"),
        (lambda line: line.replace(b'{"m": {"post_x": 1.0}}', b"[1]"), r"Expected `object`, got `array` - at `\$\.values`"),
        (lambda line: line.replace(b'"state": 0', b'"state": 99999999999999999999'), "out of range|too large|<=|< "),
        (lambda line: line.replace(b'"status": "ok", ', b""), "missing required field `status`"),
        (lambda line: line.replace(b', "noop": false', b""), None),
    ],
)  # fmt: skip
def test_what_is_no_record_is_damage_though_its_checksum_fits(tmp_path, change, why):
    folder = made(tmp_path, [record("a").row, record("b").row])
    first, second = folder.samples.read_bytes().splitlines(keepends=True)
    body = change(second[: -log.CHECK])
    folder.samples.write_bytes(first + body + log._check(body))
    if why is None:  # what a record need not have
        assert [r.noop for r in folder.records()] == [False, False]
        return
    with pytest.raises(
        RunFolderError, match=rf"row 1 of .* is damaged \(byte {len(first)}\).*({why})"
    ) as error:
        folder.records()
    assert error.value.code == 7


def test_columns_are_the_callers_own(tmp_path):
    first = record("a", before=[[0.5, None, 3]], after=[{"text": "a"}])
    table = made(tmp_path, [first.row, record("b").row]).records()
    table.columns("m")["post_x"][0] = 7
    assert table.columns("m")["post_x"].tolist() == [1.0, 1.0]
    assert (table[-1].case, [row.case for row in table[:1]]) == ("b", ["a"])
    before = table[0].before
    assert (len(before), before[-1], before[:1]) == (1, [0.5, None, 3], [[0.5, None, 3]])


def test_cases_are_those_that_were_written_or_it_is_said(tmp_path):
    folder = made(tmp_path, [])
    assert list(folder.cases()) == list(NAMES)
    assert folder.cases()["a"] == Case("a", (REQUEST,), ())
    assert list(Chosen({"a": 1, "b": 2}, ["b", "a", "b"])) == [2, 1, 2]
    folder.write_cases([])
    folder._cases_digest = ""
    (folder.path / "cases.jsonl").write_bytes(b'{"id": 1}\n')
    with pytest.raises(RunFolderError, match="was changed after it was written"):
        folder.cases()


def test_a_strangers_row_has_numbers_for_values():
    line = log.encoded(0, "0" * 12, Record("a", "ok", {"m": {"x": None}}).row)
    assert Record.read(line).values == {"m": {"x": None}}
    with pytest.raises(ValueError, match="got `null`"):
        Record.read(line, strict=True)
    # Half of a surrogate pair survives: a model may write one, and msgspec reads none.
    for each in (Record("a", "ok", {}, after=[{"text": "x\ud800y"}]), Record("q\ud800", "ok", {})):
        assert Record.read(log.encoded(0, "0" * 12, each.row)).row == each.row
