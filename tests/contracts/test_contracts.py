"""The nets as they are written; `python -m tests.contracts` says more, and makes them anew on purpose."""

import pytest

from tests.contracts import imports, names, nets


def test_what_strangers_import_is_there():
    assert names.missing() == []


@pytest.mark.parametrize("net", [names, imports], ids=lambda n: n.__name__)
def test_a_net_is_as_it_was_written(net):
    name = net.__name__.rpartition(".")[2]
    assert nets.changes(nets.stored(name), net.cast(), nets.TOLERANCE) == []


def test_a_number_that_moved_is_seen():
    then = {"rome": {"post_ES": 0.5, "n": 3}}
    assert nets.changes(then, {"rome": {"post_ES": 0.5 + 1e-5, "n": 3}}, nets.TOLERANCE) == []
    assert nets.changes(then, {"rome": {"post_ES": 0.51, "n": 3}}, nets.TOLERANCE)
    assert nets.changes(then, {"rome": {"post_ES": 0.5, "n": 4}}, nets.TOLERANCE)
    assert nets.changes(then, {"rome": {"post_ES": 0.5, "n": 3, "new": 1}}, nets.TOLERANCE)
