"""No text of a stranger is obeyed by a terminal, whichever command shows it, and none is lost."""

import io
import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from support.builders import MANIFEST, with_entries
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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with every hostile string in every place that has a text."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "\x1b[31m[run]")
    folder.path.mkdir()
    cases = [of(i, text) for i, text in enumerate(STRINGS)]
    folder.write_cases(cases)
    judge = {"name": "\x1b[31m[red]", "version": "\u202e", "fields": {}, "provenance": {}}
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


@given(st.text())
def test_what_was_made_printable_stays_as_it_is(text):
    assert harmless(printable(text))
    assert printable(printable(text)) == printable(text)
    assert "\n" not in one_line(text)
    assert printable("Zürich 漢字\n[bold]") == "Zürich 漢字\n[bold]"


def test_every_way_to_print_escapes():
    """As a text, in a table's title, head and cells; styles are left."""
    file = io.StringIO()
    out = Terminal(file=file, width=40, force_terminal=True, color_system="truecolor")
    for text in STRINGS:
        table = Table(title=text)
        table.add_column(text)
        table.add_row(text)
        table.add_row(plain(text, "bold"))
        for shown in (text, plain(text), table):
            out.print(shown)
    assert harmless(STYLE.sub("", file.getvalue()))
    assert "[not a tag]" in file.getvalue()


def test_a_run_is_scored_and_each_case_shown_with_all_of_them_and_as_json_they_are_exact(run):
    told = tell("score", str(run), "-v")
    check(told, 1)
    assert "\\x1b[31m[red]" in told.stderr
    check(tell("score", str(run), str(run)), 1)
    found = json.loads(tell("score", str(run), "--json").stdout)
    failed = {f"{i} {text}" for i, text in enumerate(STRINGS) if i % 2 == 0}
    assert set(found["failed"]) == failed
    assert found["judged_by"] == sorted({text for text in STRINGS if text})
    for i, text in [*enumerate(STRINGS)][::5]:
        check(tell("case", str(run), f"{i} {text}"))
        found = json.loads(tell("case", str(run), f"{i} {text}", "--json").stdout)
        assert found["case"] == json.loads(json.dumps(encode_case(of(i, text))))
        assert found["records"][0]["message"] == text
        assert found["records"][0]["after"][0]["text"] == text
    told = tell("case", str(run), "x\nsaved  feigned\x1b[2J")
    check(told, 2)
    assert len(told.stderr.splitlines()) == 2
    check(tell("ls", "runs", "-o", str(run.parent)))


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
