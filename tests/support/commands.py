"""The command line in this process: what it prints, and how it ends."""

from click.testing import CliRunner

from edit_harness.cli import main


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
