"""What identifies a class of a notebook: what it does, not where it stands."""

import os
import subprocess
import sys

import pytest
from builders import in_memory

from edit_harness.registry import bytecode
from edit_harness.registry.packages import file_of
from edit_harness.registry.uninstalled import of_class

CLASS = """
from dataclasses import dataclass
from functools import cache, cached_property
from edit_harness import Editor
import math

RATE = 0.5
WORDS = {"a", "b", "c"}

def helper(x):
    return x + 1

@cache
def kept(x):
    return helper(x)

class Base:
    def base(self):
        return 1

class Below(Base):
    pass

@dataclass
class Mine(Below, Editor):
    layer: int = 3
    names = ("a", {"b": 1.0})
    mark = None

    def edit(self, model, requests):
        def inner(x):
            return RATE * kept(x) + (1 if x in WORDS else 2)
        return [inner(r) for r in requests]

    @property
    def shown(self):
        return "shown"

    @classmethod
    def of(cls):
        return "of"

    @staticmethod
    def still():
        return "still"

    @cached_property
    def once(self):
        return super().base()
"""


def made(text):
    return in_memory(text).Mine


def digest(text):
    return bytecode.of_class(made(text))


def test_the_place_of_a_class_is_no_part_of_its_digest():
    assert digest("\n\n\n" + CLASS) == digest(CLASS)
    assert digest(CLASS.replace("import math\n", "import math\nUNUSED = 1\n")) == digest(CLASS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kept(x) +", "kept(x) -"),
        ("else 2", "else 3"),
        ("layer: int = 3", "layer: int = 4"),
        ('{"b": 1.0}', '{"b": 2.0}'),
        ("mark = None", "mark = 0"),
        ('"shown"', '"hidden"'),
        ('return "of"', 'return "off"'),
        ('return "still"', 'return "moved"'),
        ("super().base()", "super().base() + 1"),
        ("return 1\n", "return 2\n"),
        ("return x + 1", "return x + 2"),
        ("RATE = 0.5", "RATE = 0.25"),
        ('"b", "c"}', '"b", "d"}'),
        ("return helper(x)", "return helper(x, 1)"),
        ("def edit(self, model, requests):", "def edit(self, requests, model):"),
    ],
)
def test_what_changes_a_class_changes_its_digest(old, new):
    assert CLASS.count(old) == 1
    assert digest(CLASS.replace(old, new)) != digest(CLASS)


def test_functions_that_name_each_other_are_read_once():
    text = "def f():\n return g()\ndef g():\n return f()\nclass Mine:\n def m(self):\n  return f(), Mine\n"
    assert digest(text) != digest(text.replace("return g()", "return g"))


def test_values_that_a_function_closes_over_count():
    text = (
        "def make(n):\n class Mine:\n  def m(self):\n   return n\n return Mine\nMine = make({})\n"
    )
    assert len({digest(text.format(n)) for n in (1, 2, "'1'")}) == 3


def test_a_class_without_a_file_is_a_package_in_memory():
    package = of_class(made(CLASS))
    assert file_of(made(CLASS)) is None
    assert (package.name, package.version, package.source) == ("Mine", "", "in memory")
    assert package.digest == digest(CLASS)
    assert package.identity.digest == package.digest


def test_what_comes_from_stdin_has_one_digest_in_every_process():
    text = (
        CLASS
        + "from edit_harness.registry.uninstalled import of_class\nprint(of_class(Mine).identity)\n"
    )
    said = set()
    for seed in "12":
        done = subprocess.run(
            [sys.executable, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1
    assert "in memory" in said.pop()
