"""A run folder that leads out of itself is refused before anything of it is read."""

import os

import pytest
from click.testing import CliRunner

from edit_harness.cli import main
from edit_harness.errors import RunFolderError
from edit_harness.folder.regular import check_regular


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "runs" / "run"
    (run / "annotations").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    return run


def link(folder):
    (folder / "samples.jsonl").symlink_to(folder.parent / "another")


def nowhere(folder):
    (folder / ".results.json.1").symlink_to("/nowhere/at/all")


def out_of_it(folder):
    (folder / "annotations").rmdir()
    (folder / "annotations").symlink_to(folder.parent)


def inner(folder):
    (folder / "annotations" / "0.json").symlink_to("/etc/hostname")


def pipe(folder):
    os.mkfifo(folder / "cases.jsonl")


def test_files_and_folders_are_what_a_run_has(folder, tmp_path):
    check_regular(folder)
    (tmp_path / "by-a-link").symlink_to(folder)
    check_regular(tmp_path / "by-a-link")


@pytest.mark.parametrize("change", [link, nowhere, out_of_it, inner, pipe])
def test_what_leads_elsewhere_is_refused(folder, change):
    change(folder)
    with pytest.raises(RunFolderError, match="is a link or no file at all"):
        check_regular(folder)
    for command in (["score"], ["case", "0"], ["annotate", "export", "--out", str(folder / "x")]):
        name, *rest = command
        args = (
            [name, *rest[:1], str(folder), *rest[1:]]
            if name == "annotate"
            else [name, str(folder), *rest]
        )
        told = CliRunner().invoke(main, args)
        assert told.exit_code == 7, told.output
    told = CliRunner().invoke(main, ["ls", "runs", "-o", str(folder.parent)])
    assert told.exit_code == 0
    assert "BROKEN" in told.stdout
