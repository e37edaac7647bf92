"""Ray that is not installed, or not where it is said to be; what is there is joined in `test_rays`."""

import logging
import os
import sys

import pytest

from edit_harness.errors import PluginError, ResourceError, UsageError
from edit_harness_plugins.commands.distributed import connection
from edit_harness_plugins.commands.distributed.places import Settings


@pytest.mark.parametrize(
    ("address", "kind", "cause"),
    [
        ("127.0.0.1:1", ResourceError, "no Ray cluster answers at 127.0.0.1:1: "),
        ("127.0.0.1:99999", ResourceError, "no Ray cluster answers at 127.0.0.1:99999: "),
        ("somewhere", UsageError, "address=somewhere is neither auto nor HOST:PORT"),
        ("ray://head:10001", UsageError, "ray://head:10001 is for clients outside of the cluster"),
    ],
)
def test_addresses_at_which_nothing_is(address, kind, cause):
    with pytest.raises(kind) as caught:
        connection.check_address(address)
    assert caught.value.cause.startswith(cause)
    assert caught.value.remedy


def test_what_ray_writes_while_it_fails_to_connect_is_not_shown(monkeypatch, capfd, caplog):
    caplog.set_level(
        logging.INFO, connection.log.name
    )  # --debug, which others have said, would show it

    class Ray:
        is_initialized = staticmethod(bool)

        @staticmethod
        def init(*given, **options):
            os.write(2, b"W rpc_client.h:153: Failed to connect to GCS")
            raise ConnectionError("timed out. And more")

    monkeypatch.setattr(connection, "ray", lambda: Ray)
    with pytest.raises(ResourceError, match="machine: timed out\n"):
        connection.connected(Settings()).__enter__()
    os.write(2, b"heard")
    assert capfd.readouterr() == ("", "heard")


def test_another_version_of_ray_is_said_as_one():
    error = connection.not_connected("a:1", RuntimeError("Version mismatch: The cluster was ..."))
    assert type(error) is PluginError
    assert "another Ray or Python" in error.cause


def test_without_ray_there_is_a_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught:
        connection.ray()
    assert caught.value.remedy == "pip install 'edit-harness[ray]'"
    assert caught.value.code == 2
