"""A small run folder with a failure, a second attempt and a withdrawn row."""

from support.builders import MANIFEST, REQUEST, with_entries

from edit_harness import Case
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record

FILES = ("samples.jsonl", "manifest.json", "cases.jsonl", "results.json")


ROWS = 6


def made(parent, seed):
    manifest = with_entries(MANIFEST, identity={"seed": seed}, visits=ROWS)
    folder = RunFolder.open(parent, "run", manifest.identity, new=False)
    names = [f"case {number}" for number in range(ROWS)]
    folder.write_cases([Case(name, (REQUEST,), ()) for name in names])
    folder.write_manifest(with_entries(manifest, cases=names))
    with folder.writing() as writer:
        for number, name in enumerate(names):
            first = writer(row(name, number + seed, "error" if number == 1 else "ok"))
            if number == 2:
                writer.withdraw(first, "a leak")
                writer(row(name, 9.5))
        writer(row(names[1], 8.5, attempt=2))
    folder.write_results({"value": 1.0 + seed})
    return folder.path


def row(name, value, status="ok", attempt=1):
    answers = [{"text": f"a {value}"}]
    return Record(name, status, {"m": {"x": float(value)}}, attempt=attempt, after=answers)
