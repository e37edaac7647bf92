"""What identifies a class that no file has, as in a notebook: itself, and nothing that it does."""

from builders import in_memory

from edit_harness.registry.packages import file_of
from edit_harness.registry.sources import of_class

CLASS = "class Mine:\n    pass\n"


def test_a_class_without_a_file_is_a_package_in_memory():
    kind = in_memory(CLASS).Mine
    package = of_class(kind)
    assert file_of(kind) is None
    assert (package.name, package.version, package.source) == ("Mine", "", "in memory")
    assert package.digest == package.identity["digest"]
    assert package.digest.startswith("unversioned ")


def test_it_is_another_each_time():
    """Nobody can tell whether it still does the same: reading its old numbers back would be a guess."""
    kind = in_memory(CLASS).Mine
    assert of_class(kind).digest != of_class(kind).digest
