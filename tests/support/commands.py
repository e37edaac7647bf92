"""The command line in this process: what it prints, and how it ends."""

from click.testing import CliRunner

from edit_harness.cli import main
from edit_harness.testing import tiny_model


def stored(folder):
    """Write a tiny model into a folder of its own in a folder, for commands that read it by its name."""
    model = tiny_model()
    model.module.save_pretrained(folder / "tiny")
    model.tokens.tokenizer.save_pretrained(folder / "tiny")
    return folder / "tiny"


def failed(result, code: int, *parts: str) -> None:
    """The command failed with a code, a cause and a remedy, and without a traceback."""
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.startswith(("error: ", "Usage: ")), result.stderr
    for part in parts:
        assert part in " ".join(result.stderr.split()), result.stderr


def edit_harness(*args):
    """Run a command; returns its exit code, and what it printed."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in result.output
    return result.exit_code, result.output
