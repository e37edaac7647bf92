"""Runs for pages: a small one, others like it, and many texts that no page may obey in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.builders import record, replace, with_entries
from support.hostile import PAGES
from support.loops import Push

from edit_harness import Case, Choose, Generate, Probe, Request, evaluate
from edit_harness.folder.record import Record
from edit_harness.run.results import Results
from edit_harness.testing import tiny_model

CLOSERS = ("", '"></title></textarea></select>', "'></style></svg>", "</script>-->]]>")
STRINGS = [closer + payload for payload in PAGES for closer in CLOSERS]
NAMES = ("Ada", "Bob", "Ann", "Danielle")


def small(folder: Path) -> Results:
    """Return a run of a tiny model on four cases; the edit of Bob fails."""
    facts = [record(i, subject=name, relation_id=f"P{i % 2}") for i, name in enumerate(NAMES)]
    (folder / "facts.json").write_text(json.dumps(facts))
    args = {"data": str(folder / "facts.json")}
    editor = Push(fails=("Bob",))
    return evaluate(editor, "counterfact", tiny_model(), task_args=args, output=folder)


def spoilt(run: Results, part: list[str]) -> Results:
    """Return a run with one text in every place of each case, and with all of them in its manifest."""
    cases = [_case(f"{i} {text}", text) for i, text in enumerate(part)]
    records = [_record(case, text, run.records[0]) for case, text in zip(cases, part, strict=True)]
    together = "\n".join(part)
    environment = {str(i): text for i, text in enumerate(part)}
    return altered(
        run, cases, records, label=together, preset=together, fingerprint=together,
        model={"name": together, "note": together, "revision": together},
        task={"origin": together, "notes": part},
        segments=[{"from": 0, "to": None, "environment": environment}],
        distributions=[{"name": t, "version": t, "digest": t, "source": t} for t in part],
        identity={
            "task": {"name": together, "version": together, "data": together},
            "editor": {"version": together, "fields": {t: t for t in part}},
            "model": {"dtype": together, "digest": together},
        },
    )  # fmt: skip


def altered(run: Results, cases: list[Case], records: list[Record], **manifest: Any) -> Results:
    """Return a run of other cases and records; what its manifest says besides may differ."""
    planned = {"cases": [case.id for case in cases], "visits": len(records)}
    made = Results(
        run.folder, run.metrics, with_entries(run.manifest, **manifest, **planned), records
    )
    made.cases, made.by_id = cases, {case.id: case for case in cases}
    return made


def _case(name: str, text: str) -> Case:
    told = text.encode("utf-8", "replace").decode().replace("{}", "")  # what a request can hold
    request = Request(f"{told} {{}}", told, told, told)
    probes = (
        Probe(f"role {text}", Choose(f"choose {text}", (text, "else")), {text: text}),
        Probe("written", Generate(f"write {text}")),
    )
    return Case(name, (request,), probes, {"group": text, text: text})


def _record(case: Case, text: str, like: Record) -> Record:
    scores = {"tokens": [[1], [2]], "logprobs": [[-1.0], [-2.0]], "argmax": [[1], [1]]}
    verdict = {"status": "decided", "score": 0.0, "note": text, "raw": text, "served": text}
    said = [scores, {"text": text, "verdict": verdict}]
    return replace(
        like, case=case.id, status="edit_failed", message=text, before=said, after=said, edit={}
    )


def copies(base: Results, count: int) -> Results:
    """Return a run of many cases like those of another, each with a success of its own."""
    cases, rows = [], []
    for i in range(count):
        record = base.records[i % 4]
        cases.append(replace(base.cases[i % 4], id=f"c{i}"))
        own = {**record.values, **_success(record, post_PS=i * 37 % 90 / 90)}
        rows.append(replace(record, case=f"c{i}", noop=i % 9 == 0, values=own))
    return altered(base, cases, rows)


def of_editor(
    base: Results, label: str, efficacy: float, specificity: float, **identity: Any
) -> Results:
    """Return a run whose measures have given values in every case."""
    rows = [
        replace(r, values=_success(r, post_ES=efficacy, post_NS=specificity)) for r in base.records
    ]
    mark = f"of {label} {identity}"
    return altered(base, base.cases, rows, label=label, fingerprint=mark, identity=identity)


def _success(record: Record, **values: float) -> dict[str, dict[str, float]]:
    return {"success": {**record.values["success"], **values}}
