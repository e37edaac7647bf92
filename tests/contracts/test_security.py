"""What SECURITY.md promises of the sources: nothing in them runs what a file says."""

import re
from pathlib import Path

import pytest
from support.builders import ROOT

from edit_harness.cli import main

SHIPPED = [
    path
    for folder in ("harness", "plugins", "examples", "benchmarks", ".ci")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file()
    and path.suffix in {".py", ".tmpl", ".jinja", ".js", ".html", ".sh", ".toml", ""}
]
FORBIDDEN = {
    "objects from a file": r"\b(pickle|dill|cloudpickle|joblib|shelve|marshal)\b(?!-)",
    "pickled arrays": r"allow_pickle\s*=\s*True",
    "pickled weights": r"weights_only\s*=\s*False",
    "torch.load of more than tensors": r"torch\.load\((?!.*weights_only=True)",
    "code from a text": r"(?<![\w.])(eval|exec|compile|__import__)\(|new Function\(",
    "objects from YAML": r"yaml\.(load|full_load|unsafe_load)",
    "a shell": r"shell\s*=\s*True|os\.(system|popen)\(|getoutput\(",
    "an archive unpacked as it says": r"extractall|unpack_archive|ZipFile\.extract\b",
    "remote code without a flag": r"trust_remote_code\s*=\s*True",
    "a server whose certificate is not looked at": r"verify\s*=\s*False|_create_unverified",
    "a name that another may take first": r"\bmktemp\(",
}
"""What no line of the sources has, by what it would let in."""
ALLOWED = {
    "harness/registry/packages.py": {
        '        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102':
            "runs the file of a plugin that the user named",
    },
}  # fmt: skip
"""Lines that have it all the same, and why they may."""


def found(pattern):
    """Yield the lines of the sources that a pattern is in, with their files."""
    for path in SHIPPED:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(ROOT).as_posix()
        yield from ((name, line) for line in lines if re.search(pattern, line))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_sources_do_not_have(what):
    wrong = [
        f"{name}: {line}"
        for name, line in found(FORBIDDEN[what])
        if line not in ALLOWED.get(name, {})
    ]
    assert not wrong


def test_the_sources_are_looked_at():
    """The patterns find what they are for, in files of which there are enough."""
    assert len(SHIPPED) > 200
    for line in ("pickle.load(f)", "x = eval(text)", "torch.load(p)", "run(c, shell=True)", "z.extractall()",
                 "yaml.load(f)", "load(p, weights_only=False)"):  # fmt: skip
        assert any(re.search(pattern, line) for pattern in FORBIDDEN.values()), line


def test_what_is_promised_names_flags_and_commands_that_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    commands = [main.get_command(None, name) for name in main.list_commands(None)]
    commands += [each for c in commands for each in getattr(c, "commands", {}).values()]
    known = {name for command in commands for flag in command.params for name in flag.opts}
    assert set(re.findall(r"--[a-z][a-z-]+", text)) <= known
    for path in re.findall(r"`((?:harness|plugins|tests)/[\w./]+)`", text):
        assert Path(ROOT / path).exists(), path
