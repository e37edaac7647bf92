"""A tokenizer's chat template as the frame of prompts; a template is a program, and gets some seconds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edit_harness.errors import DataError, UsageError
from edit_harness.model.tokens import Frame
from edit_harness.registry.guard import said

MARK = "aPromptToEdit"
"""A message for trying a template, which may change its case or write it twice."""
DATE = "1 Jan 2025"
"""The day that templates are told: a score must not depend on it."""
RENDERING = 5.0
"""Seconds that a chat template may take."""


def chat_frame(tokenizer: Any) -> Frame:
    """Return what the tokenizer's chat template puts around a user's message.

    Raises `UsageError` if it has none that repeats the message, `DataError` for one that breaks or takes too long.
    """
    plain = "leave out --chat-template: plain prompts"
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError("the model's tokenizer has no chat template", plain)
    asked = [{"role": "user", "content": MARK}]
    try:
        with within(RENDERING):
            text = tokenizer.apply_chat_template(
                asked, tokenize=False, add_generation_prompt=True, date_string=DATE
            )
    except Exception as error:  # a template is a program
        raise DataError(
            f"the model's chat template cannot be rendered: {said(error)}"[:200],
            f"mend it in a copy of the model, or {plain}",
        ) from None
    before, _, after = text.partition(MARK)
    if (times := text.count(MARK)) != 1:
        raise UsageError(
            f"the chat template does not repeat the user's message once, unchanged, but {times} times",
            plain,
        )
    return Frame(before, after, "" if after[-1:].isspace() else " ")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block if it takes longer: by an alarm, which the main thread alone can have."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError(f"it took longer than {seconds:.3g} s")

    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
