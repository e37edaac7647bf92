"""No text of a stranger is obeyed by a terminal, whichever command shows it, and none is lost."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from support.builders import MANIFEST, record, with_entries
from support.commands import stored
from support.hostile import STRINGS

from edit_harness import Case, Generate, Probe, Request, Text, Verdict
from edit_harness.cli import main
from edit_harness.errors import one_line, printable
from edit_harness.folder.encoding import encode_answer, encode_case
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record
from edit_harness_plugins.terminal import Terminal, plain

STYLE = re.compile("\x1b\\[[0-9;]*m")
"""What our own styles write."""


def harmless(shown):
    """Tell whether a terminal that gets this does nothing but show it."""
    return all(c.isprintable() or c == "\n" for c in shown)


def names():
    """Return the strings that a file can have as its name."""
    for text in STRINGS:
        try:
            if 0 < len(os.fsencode(text)) < 200 and not {"/", "\0"} & {*text} and text.strip("."):
                yield text
        except UnicodeEncodeError:
            continue


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with every hostile string in every place that has a text."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    folder.path.mkdir()
    cases = [of(i, text) for i, text in enumerate(STRINGS)]
    folder.write_cases(cases)
    judge = {"name": "\x1b[31m[red]", "version": "\u202e", "note": "\x07"}
    judge |= {"fields": {}, "provenance": {}}
    folder.write_manifest(
        with_entries(
            MANIFEST, cases=[case.id for case in cases], identity={"task": {"name": STRINGS[0]}},
            label="\x1b]0;x\x07[/]", model={"name": "\x1bc", "path": "\x1bc"}, preset="[/x]",
            visits=len(cases), judged_by=judge,
        )
    )  # fmt: skip
    with folder.writing() as write:
        for i, (case, text) in enumerate(zip(cases, STRINGS, strict=True)):
            verdict = Verdict("decided", 1.0, note=text, served=text)
            answer = [encode_answer(Text(text, verdict))]
            status = "ok" if i % 2 else "edit_failed"
            write(Record(case.id, status, {}, before=answer, after=answer, message=text))
    return folder.path


def of(number, text):
    """Return a case with a string in its id, its prompt, its tags."""
    requests = (Request("{} lives in", "Ada", "Oslo"),)
    probe = Probe(text, Generate(text), {text: text})
    return Case(f"{number} {text}", requests, (probe,), {text: text})


def tell(*args):
    return CliRunner().invoke(main, list(args))


def check(told, code=0):
    assert told.exit_code == code, told.output
    assert harmless(told.output), ascii(told.output)


# The console itself.


@given(st.text())
def test_what_was_made_printable_stays_as_it_is(text):
    assert harmless(printable(text))
    assert printable(printable(text)) == printable(text)
    assert "\n" not in one_line(text)
    assert printable("Zürich 漢字\n[bold]") == "Zürich 漢字\n[bold]"


@pytest.mark.parametrize("width", [40, 200])
def test_every_way_to_print_escapes(width):
    """As a text, in a table's title, head and cells, as a rule; styles are left."""
    file = io.StringIO()
    out = Terminal(file=file, width=width, force_terminal=True, color_system="truecolor")
    for text in STRINGS:
        table = Table(title=text)
        table.add_column(text)
        table.add_row(text)
        table.add_row(plain(text, "bold"))
        for shown in (text, plain(text), table):
            out.print(shown)
    assert harmless(STYLE.sub("", file.getvalue()))


def test_markup_is_text_and_a_table_is_as_wide_as_what_it_shows():
    file = io.StringIO()
    out = Terminal(file=file, width=80)
    grid = Table.grid()
    grid.add_row("[bold]x[/nope] \x1b[31m :smile:", "|")
    grid.add_row(plain("\u202e"), "|")
    out.print(grid)
    first, second = file.getvalue().splitlines()
    assert first == "[bold]x[/nope] \\x1b[31m :smile:|"
    assert second.rstrip() == "\\u202e".ljust(len(first) - 1) + "|"


# The commands.


def test_a_run_is_scored_with_all_of_them_and_as_json_they_are_exact(run):
    told = tell("score", str(run), "-v")
    check(told, 1)
    assert "\\x1b[31m[red]" in told.stderr
    told = tell("score", str(run), str(run))
    check(told, 1)
    assert "\\x1b]0;x\\x07[/]" in told.stdout
    found = json.loads(tell("score", str(run), "--json").stdout)
    failed = {f"{i} {text}" for i, text in enumerate(STRINGS) if i % 2 == 0}
    assert set(found["failed"]) == failed
    assert found["judged_by"] == sorted({text for text in STRINGS if text})


def test_each_case_is_shown_and_exact_as_json(run):
    for i, text in [*enumerate(STRINGS)][::5]:
        check(tell("case", str(run), f"{i} {text}"))
        found = json.loads(tell("case", str(run), f"{i} {text}", "--json").stdout)
        assert found["case"] == json.loads(json.dumps(encode_case(of(i, text))))
        assert found["records"][0]["message"] == text
        assert found["records"][0]["after"][0]["text"] == text
    told = tell("case", str(run), "x\nsaved  feigned\x1b[2J")
    check(told, 2)
    assert len(told.stderr.splitlines()) == 2


def test_runs_with_any_name_are_listed(run, tmp_path):
    every = list(names())
    for name in every:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text('{"cases": []}')
    check(tell("ls", "runs", "-o", str(tmp_path)))
    found = json.loads(tell("ls", "runs", "-o", str(tmp_path), "--json").stdout)
    assert {row["name"] for row in found["runs"]} == {str(tmp_path / name) for name in every}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(stored(tmp_path_factory.mktemp("models")))


def test_a_model_is_asked_them(tiny):
    asked = [t for t in STRINGS if "," not in t and t == t.strip() and 0 < len(t) < 100]
    asked = [text for text in asked if not any("\ud800" <= c < "\ue000" for c in text)][::2]
    fact = ("--prompt", "{} lives in", "--subject", "\x1b[31mAda", "--target", "\u202eOslo[/]")
    args = ("-m", tiny, "-e", "none", *fact, "--max-new-tokens", "1")
    asking = [part for text in asked for part in ("--ask", text)]
    check(tell("try", *args, *asking))
    told = tell("try", *args, "--json", *asking)
    assert [view["prompt"] for view in json.loads(told.stdout)["views"]][2::2] == asked


def test_a_run_on_data_with_all_of_them(tiny, tmp_path):
    """Ids and subjects; records that cannot be used are named with the reason."""
    facts = tmp_path / "facts.json"
    records = [record(f"{i} {text}", subject=text) for i, text in enumerate(STRINGS)]
    facts.write_text(json.dumps(records))
    args = ("-m", tiny, "-e", "none", "-t", "counterfact", "--task-args", f"data={facts}")
    told = tell(*args, "--metrics", "success", "-o", str(tmp_path / "\u202eout [red]"))
    assert told.exit_code in (0, 1), told.output
    assert harmless(told.output), ascii(told.output)
    (folder,) = (tmp_path / "\u202eout [red]").iterdir()
    assert {r.case for r in RunFolder(folder).records()} == {r["case_id"] for r in records}


def test_errors_and_the_log_of_debug_are_escaped_too(tmp_path):
    nowhere = "\x1b[31mno\nwhere\u202e"
    for args in (
        ("score", nowhere),
        ("score", nowhere, "--debug"),
        ("\x1b[31mrun",),
        ("run", "--no-such-\x1b[31mflag"),
    ):
        check(tell(*args), 2)


def test_who_stops_reading_does_not_change_the_exit_code(tmp_path):
    said = "from edit_harness_plugins.terminal import Terminal\nout = Terminal()\n"
    loop = (
        "for _ in range(20000):\n    out.print('a line')\nout.file.flush()\nraise SystemExit(7)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", said + loop], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 7
