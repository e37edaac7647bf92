"""What a worker has otherwise than the driver, and what is said of it."""

import pytest

from edit_harness.errors import DataError, PluginError
from edit_harness_plugins.commands.distributed import agreement

MEMIT = {"name": "edit-harness-memit", "version": "1.2", "source": "/a", "digest": "a" * 64}
IDENTITY = {
    "schema": 4,
    "editor": {"name": "rome", "fields": {"layer": 5, "layers": (1, 2)}},
    "task": {"name": "zsre", "data": "1"},
    "model": {"digest": "1", "dtype": "float32"},
    "together": "",
    "code": [["edit-harness", "1"], ["edit-harness-memit", "2"]],
}


def test_equal_packages_agree_wherever_they_lie():
    agreement.check_packages(
        [MEMIT], [{**MEMIT, "name": "Edit_Harness.memit", "source": "/b"}], "n1"
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], "the worker on n1 has no edit-harness-memit 1.2 (aaaaaaaaaaaa)"),
        (
            [{**MEMIT, "version": "1.1", "digest": "b" * 64}],
            f"the worker on n1 has edit-harness-memit 1.1 ({'b' * 12}), not edit-harness-memit 1.2 ({'a' * 12})",
        ),
    ],
)
def test_a_distribution_that_differs_is_named_with_both_versions(found, told):
    with pytest.raises(PluginError) as error:
        agreement.check_packages([MEMIT], found, "n1")
    assert (error.value.cause, error.value.remedy) == (told, "install the same on every worker")


def test_an_identity_that_went_through_json_agrees():
    there = {**IDENTITY, "editor": {"name": "rome", "fields": {"layer": 5, "layers": [1, 2]}}}
    agreement.check_identities([IDENTITY], {"host": "n1", "identities": [there]})


@pytest.mark.parametrize(
    ("part", "value", "error", "told"),
    [
        ("model", {"digest": "2", "dtype": "float32"}, DataError, "another model (digest)"),
        ("model", {"digest": "1", "dtype": "tf32"}, DataError, "another model (dtype)"),
        ("task", {"name": "zsre", "data": "2"}, DataError, "another task (data)"),
        ("together", "x", DataError, "other cases"),
        ("editor", {"name": "rome", "fields": {}}, PluginError, "another editor: fields"),
        ("schema", 5, PluginError, "another schema: 5, not 4"),
        ("code", [["edit-harness", "1"], ["edit-harness-memit", "3"]], PluginError,
         "another edit-harness-memit"),
    ],
)  # fmt: skip
def test_what_differs_is_told(part, value, error, told):
    card = {"host": "n1", "identities": [{**IDENTITY, part: value}]}
    with pytest.raises(error) as raised:
        agreement.check_identities([IDENTITY], card)
    assert raised.value.cause == f"the worker on n1 has {told}"


def test_workers_of_two_kinds_are_not_mixed():
    cpu = {"host": "n1", "device": "cpu", "chunk": 64, "environment": {"device": "cpu"}}
    gpu = {"host": "n2", "device": "H200", "chunk": 16, "environment": {"device": "cuda:0"}}
    agreement.check_alike(cpu, cpu)
    agreement.check_alike(gpu, {**gpu, "environment": {"device": "cuda:3"}})
    with pytest.raises(DataError, match="the worker on n2 computes on H200, that on n1 on cpu"):
        agreement.check_alike(cpu, gpu)
