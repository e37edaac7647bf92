"""A finished command again: shown without torch while all is as it was, and the long way after any change."""

import os
from pathlib import Path

import pytest
from support.builders import people
from support.commands import invoked, python, stored

from edit_harness.registry import packages
from edit_harness_plugins.commands.run import receipt, running

LONG = 99
COMMAND = (
    "-e",
    "none",
    "-m",
    "tiny",
    "-t",
    "counterfact",
    "--task-args",
    "data=facts.json",
    "-L",
    3,
)
WITHOUT = """
import sys
from edit_harness.cli import main
try:
    main(sys.argv[1:])
finally:
    print("torch" in sys.modules)
"""


@pytest.fixture
def again(monkeypatch, tmp_path):
    """Run a command, and give what runs it again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    stored(tmp_path)
    people(tmp_path, ("Ada", "Bob", "Ann"))
    assert invoked(*COMMAND).exit_code == 0
    return lambda *args: invoked(*COMMAND, *args)


@pytest.fixture
def long(monkeypatch, again):
    """Let the long way end with a code of its own."""
    monkeypatch.setattr(running, "run", lambda *_: LONG)


def rewritten(path):
    """Change a byte of a file, and put its size and times back."""
    state, data = path.stat(), path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def added(name):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(b"more")


def shortened(name):
    (path,) = Path("results").glob(f"*/{name}")
    path.write_bytes(path.read_bytes()[:-40])


CHANGES = {
    "weights": lambda _: rewritten(Path("tiny/model.safetensors")),
    "a file beside the weights": lambda _: added("tiny/chat_template.jinja"),
    "data": lambda _: people(Path(), ("Ada", "Bob", "Eve")),
    "a statistic": lambda _: added(f"cache/moments/{'0' * 16}/l1.safetensors"),
    "code": lambda patch: patch.setattr(packages, "digest_of", lambda contents: "other"),
    "software": lambda patch: patch.setattr(receipt, "version", lambda name: "other"),
    "a variable": lambda patch: patch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),
    "another plugin": lambda patch: patch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(Path("mine.py").absolute())),
    **{f"{name} of the run": lambda _, name=name: shortened(name)
       for name in ("manifest.json", "cases.jsonl", "samples.jsonl", "results.json")},
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_command_goes_the_long_way(again, long, monkeypatch, change):
    Path("mine.py").write_text(
        "from edit_harness import Control, hookimpl\nclass Own(Control): pass\n@hookimpl\n"
        "def edit_harness_register_controls(register): register('own', Own)\n"
    )
    assert again().exit_code == 0
    CHANGES[change](monkeypatch)
    assert again().exit_code == LONG


def test_other_flags_go_the_long_way(again, long):
    others = (
        "--new", "--retry-failed", "--shard 1/2", "--control text", "-L 2", "--seed 1", "--seed 0,1", "-e none,ft",
        "--editor-args x=1", "--dtype float64", "--edit-mode batch", "--metrics success", "-o other", "--executor ray",
    )  # fmt: skip
    assert {flags: again(*flags.split()).exit_code for flags in others} == dict.fromkeys(
        others, LONG
    )


def test_files_that_flags_name_count(again, monkeypatch):
    keys = []
    monkeypatch.setattr(running, "run", lambda *given: keys.append(receipt.key_of(*given)))
    for content in "one", "two":
        Path("a,b").write_text(content)
        again("--editor-args", "moments=a,b")
    assert all(keys)
    assert keys[0] != keys[1]


def test_a_finished_command_is_shown_without_torch_as_the_long_way_shows_it(again):
    shown = python("-c", WITHOUT, *COMMAND, cwd=Path())
    assert shown == again().stdout + "False\n"
    for flags in (), ("-q",), ("--json",), ("-v",):
        told = again(*flags)
        for file in Path("cache/receipts").iterdir():
            file.unlink()
        long = again(*flags)
        assert (told.exit_code, told.stdout, told.stderr) == (0, long.stdout, long.stderr)


def test_what_is_not_all_of_its_folder_leaves_no_receipt(again):
    assert again("-L", 1).exit_code == 0
    assert len([*Path("cache/receipts").iterdir()]) == 1
