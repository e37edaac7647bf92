"""How many workers there are to be, by what nodes have; no cluster is needed."""

import pytest

from edit_harness.errors import ResourceError, UsageError
from edit_harness.registry import settings as fields
from edit_harness_plugins.commands.distributed.places import Demand, Node, Settings, demanded, seats

CPUS = [Node("a", "a", cpus=8, gpus=0), Node("b", "b", cpus=4, gpus=0)]
GPUS = [Node("a", "a", cpus=16, gpus=8), Node("b", "b", cpus=16, gpus=8)]


@pytest.mark.parametrize(
    ("nodes", "settings", "wanted"),
    [
        (CPUS, {}, Demand(6, 1, 0)),
        (CPUS, {"num_workers": 3, "cpus_per_worker": 4}, Demand(3, 4, 0)),
        (CPUS[:1], {"num_workers": 8}, Demand(8, 1, 0)),
        (GPUS, {}, Demand(16, 1, 1)),
        (GPUS, {"gpus_per_worker": 0.5}, Demand(32, 1, 0.5)),
        (GPUS, {"gpus_per_worker": 2, "cpus_per_worker": 0}, Demand(8, 0, 2)),
        (GPUS, {"gpus_per_worker": 0}, Demand(16, 1, 0)),
        ([Node("a", "a", cpus=1, gpus=0)], {}, Demand(1, 1, 0)),
    ],
)
def test_how_many_there_are_to_be(nodes, settings, wanted):
    assert demanded(nodes, Settings(**settings)) == wanted


@pytest.mark.parametrize(
    ("nodes", "settings", "cause"),
    [
        (CPUS, {"num_workers": 13}, "13 workers with 1 CPU each, but for 12: there are 12 CPUs and 0 GPUs on 2 nodes"),
        (CPUS, {"gpus_per_worker": 1}, "1 worker with 1 CPU and 1 GPU, but for 0: there are 12 CPUs and 0 GPUs on 2 nodes"),
        (CPUS, {"num_workers": 3, "cpus_per_worker": 5}, "3 workers with 5 CPUs each, but for 1: there are 12 CPUs and 0 GPUs on 2 nodes"),
        (GPUS, {"num_workers": 3, "gpus_per_worker": 6}, "3 workers with 1 CPU and 6 GPUs each, but for 2: there are 32 CPUs and 16 GPUs on 2 nodes"),
    ],
)  # fmt: skip
def test_no_room_is_said_with_what_there_is(nodes, settings, cause):
    with pytest.raises(ResourceError) as caught:
        demanded(nodes, Settings(**settings))
    assert caught.value.cause == f"there is no room for {cause}"
    assert "num_workers" in caught.value.remedy


def test_gpus_are_shared_or_whole():
    with pytest.raises(UsageError, match=r"gpus_per_worker=1\.5 is neither whole nor below 1"):
        demanded(GPUS, Settings(gpus_per_worker=1.5))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("num_worker=2", "ray has no field 'num_worker'"),
        ("num_workers=-1", "num_workers=-1 is not at least 0"),
        ("num_workers=two", "num_workers='two' is not of type int"),
        ("gpus_per_worker=-1", r"gpus_per_worker=-1\.0 is not at least 0"),
        ("heartbeat=0", r"heartbeat=0\.0 is not above 0"),
    ],
)
def test_settings_that_make_no_sense(text, cause):
    with pytest.raises(UsageError, match=cause):
        fields.build(Settings, fields.parse([text]), "ray")


def test_workers_are_dealt_in_turn_and_every_node_has_one():
    small = Node("c", "c", cpus=0, gpus=0)
    dealt = seats([*CPUS, small], Demand(3, 1, 0))
    assert [(node.host, takes.cpus) for node, takes in dealt] == [("a", 1), ("b", 1), ("a", 1), ("c", 0)]  # fmt: skip
    assert len(seats(CPUS, Demand(12, 1, 0))) == 12
