"""The bundled model's samples, made again of the world's files as a user would call the command."""

from click.testing import CliRunner

from edit_harness.cli import main
from edit_harness_plugins.models.pocket import FILES

WORLD = FILES.with_name("world")


def built_of_the_world(folder, name: str, seed: int, **settings: object):
    """Return what a builder makes with the model."""
    out, fields = folder / name, ",".join(f"{key}={value}" for key, value in settings.items())
    files = ["--triples", WORLD / "facts.json", "--templates", WORLD / "templates.json"]
    how = ["--model", "pocket", "--device", "cpu", "--seed", seed, "--builder-args", fields]
    command = ["build-data", name, *files, *how, "--output", out]
    done = CliRunner().invoke(main, [str(word) for word in command])
    assert done.exit_code == 0, done.stderr
    return out
