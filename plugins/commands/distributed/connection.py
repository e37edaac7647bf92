"""Ray itself: the only module that imports it, when it is first asked for; started here or joined, and left.

Ray's own log stays in Ray's files. Who works on it is `edit_harness_plugins.commands.distributed.rays`' matter.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edit_harness.errors import HarnessError, PluginError, ResourceError, Terminated, UsageError

from .places import Node, Settings

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""What Ray reads when it is imported: no reports to its makers, no hint about a future version."""
STORE = 256 * 2**20
"""Bytes for what is on its way between processes, of a Ray that is started here: rows are small."""
ANSWERS = 5.0
"""Seconds in which an address must answer at all."""
ATTEMPTS = "RAY_gcs_server_port_wait_time_s"
"""How often Ray tries a cluster, 40 s each; 20 times by itself."""

log = logging.getLogger(__name__)


def ray() -> Any:
    """Return the module. Raises `UsageError` if it is not installed."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise UsageError(
            "--executor ray needs Ray, which is not installed", "pip install 'edit-harness[ray]'"
        ) from None
    return ray


@contextmanager
def connected(settings: Settings) -> Iterator[None]:
    """Be Ray's driver for a while, with a Ray of this machine's own or in a cluster that runs.

    A connection that this process has already is taken as it is. Raises `ResourceError`.
    """
    module = ray()
    if module.is_initialized():
        yield
        return
    options: dict[str, Any] = {"include_dashboard": False, "object_store_memory": STORE}
    if settings.address:
        check_address(settings.address)
        os.environ.setdefault(ATTEMPTS, "1")
        options = {}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _unheard():
            module.init(
                settings.address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **options,
            )
    except SystemExit:  # what Ray's own handler of SIGTERM raises meanwhile
        raise Terminated from None
    except Exception as error:
        raise not_connected(settings.address, error) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray puts its own there
    # That a worker died is printed to stdout whatever the log is told; it is told as an event here.
    module._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        module.shutdown()


@contextmanager
def _unheard() -> Iterator[None]:
    """Let what Ray's compiled code writes to stderr go nowhere, except with --debug: what is wrong it raises, too.

    No setting of Ray's reaches its log before it is connected.
    """
    if log.isEnabledFor(logging.DEBUG):
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def check_address(address: str) -> None:
    """Raise an error for an address that nobody answers at, which Ray itself finds out late."""
    if address.startswith("ray://"):
        raise UsageError(
            f"{address} is for clients outside of the cluster, which rows cannot stream to",
            "start the command on a node of the cluster, with address=auto",
        )
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        raise UsageError(f"address={address} is neither auto nor HOST:PORT", "such as node1:6379")
    try:
        socket.create_connection((host, int(port)), ANSWERS).close()
    except (OSError, OverflowError) as error:
        raise not_connected(address, error) from None


def not_connected(address: str, error: Exception) -> HarnessError:
    """Return what it means that Ray could not be started or joined."""
    log.debug("ray.init", exc_info=error)
    line = next(iter(str(error).strip().splitlines()), type(error).__name__).partition(". ")[0]
    if "ersion mismatch" in line:
        return PluginError(
            f"the cluster at {address} has another Ray or Python than this process",
            "install the same on every node; edit-harness cluster-check says what each has",
        )
    if address:
        where = "on this machine" if address == "auto" else f"at {address}"
        return ResourceError(
            f"no Ray cluster answers {where}: {line}",
            "start one (ray start --head), or leave address out for a Ray of this machine alone",
        )
    return ResourceError(
        f"Ray does not start on this machine: {line}", "see more with --debug, or: --executor local"
    )


def nodes() -> list[Node]:
    """Return the cluster's nodes that live."""
    return [
        Node(
            node["NodeID"],
            node["NodeManagerHostname"],
            node["Resources"].get("CPU", 0.0),
            node["Resources"].get("GPU", 0.0),
        )
        for node in ray().nodes()
        if node["Alive"]
    ]
