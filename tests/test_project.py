"""What a pyproject.toml says of plugins, and what no package can say."""

import pytest

from edit_harness import UsageError
from edit_harness.cli import main
from edit_harness.registry import selection
from edit_harness.registry.sources import in_folder

ENTRIES = "[project.entry-points.edit_harness]\n"
NAMED = '[project]\nname = "x"\n'


def test_what_a_package_says(tmp_path):
    file = tmp_path / "pyproject.toml"
    file.write_text(f"{NAMED}version = '1'\n{ENTRIES}b = 'm.n'\na = 'm:plugin'\n")
    (said,) = in_folder(tmp_path)
    assert (said.name, said.version) == ("x", "1")
    assert [(e.name, e.value) for e in said.entries] == [("a", "m:plugin"), ("b", "m.n")]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("project = 1", "[project] is no table"),
        ("[project]\nentry-points = 1", "[project.entry-points] is no table"),
        (
            "[project.entry-points]\nedit_harness = 'm'",
            "[project.entry-points.edit_harness] is no table",
        ),
        (f"{ENTRIES}a = 'm'", "[project] has no name"),
        (f"[project]\nname = 1\n{ENTRIES}a = 'm'", "[project] has no name"),
        (f"{NAMED}version = 1.0\n{ENTRIES}a = 'm'", "the version 1.0 is no text"),
        (f"{NAMED}{ENTRIES}a = ['m']", "the entry point 'a' is no text"),
        (f"{NAMED}{ENTRIES}a = '__main__'", "the entry point 'a' names no module: '__main__'"),
        (
            f"{NAMED}{ENTRIES}a = 'not a module!'",
            "the entry point 'a' names no module: 'not a module!'",
        ),
        (f"{NAMED}{ENTRIES}a = 'm..n'", "the entry point 'a' names no module: 'm..n'"),
        (f"{NAMED}{ENTRIES}a = ''", "the entry point 'a' names no module: ''"),
    ],
)
def test_what_no_package_can_say_is_an_error_of_use(tmp_path, monkeypatch, capsys, text, cause):
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        in_folder(tmp_path)
    assert caught.value.cause == f"{file}: {cause}"
    assert caught.value.remedy
    monkeypatch.setenv(selection.FOLDERS, str(tmp_path))
    with pytest.raises(SystemExit) as left:
        main(["plugins"])
    assert left.value.code == 2
    assert f"error: {file}: {cause}\n" in capsys.readouterr().err


def test_what_cannot_be_read_is_an_error_of_use(tmp_path):
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        in_folder(tmp_path)
