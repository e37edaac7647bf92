"""Failures: a failed case's status and message, and the failures that end a run at once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from ..errors import PluginError
from ..model.tokens import TooLongError
from ..registry.guard import said

T = TypeVar("T")
RETRIED = frozenset(
    ("edit_failed", "oom", "timeout", "device_error", "plugin_error", "leak", "error")
)
"""The statuses that another try may change; the others depend on the case alone."""
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
LOST = ("CUDA error", "device-side assert", "CUDNN_STATUS", "CUBLAS_STATUS", "HIP error")


class NoEditError(PluginError):
    """An editor did not return an `Edit`."""


class PastError(Exception):
    """Failed before the run was resumed; its arguments are the status and the message."""


class DeviceLostError(Exception):
    """The device failed, and nothing that it answers afterwards can be trusted."""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether a device or the machine has not enough memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def frugally(work: Callable[[], T]) -> T:
    """Call, and once more after freeing memory if that does not suffice."""
    try:
        return work()
    except BaseException as error:
        if not out_of_memory(error):
            raise
    # Out here, since the frames of an exception that is handled hold tensors.
    gc.collect()
    torch.cuda.empty_cache()
    return work()


def check_device(error: BaseException) -> None:
    """Raise `DeviceLostError` if an error says that the device failed."""
    if out_of_memory(error):
        return
    told = isinstance(error, RuntimeError) and any(words in str(error) for words in LOST)
    if told or isinstance(error, torch.AcceleratorError):
        raise DeviceLostError(said(error)) from error


def status(error: BaseException, of: object, *, edit: bool) -> tuple[str, str]:
    """Return the status and the message of a case; ``edit`` says whether its edit failed.

    The message names the line of the editor ``of`` that the error came through.
    """
    if isinstance(error, PastError):
        return error.args[0], error.args[1]
    if isinstance(error, TooLongError):
        return "too_long", error.cause
    if out_of_memory(error):
        return "oom", "the device's memory is too small for it, even alone"
    if isinstance(error, NoEditError) or (isinstance(error, PluginError) and not edit):
        return "plugin_error", said(error, of)
    return ("edit_failed" if edit else "error"), said(error, of)
