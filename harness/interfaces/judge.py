"""A judge: texts to verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from ..data import Reply, Verdict
from ..errors import elsewhere


class Judge(ABC):
    """Tells whether texts are right, from the texts alone: it knows neither model nor edit."""

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, str]] = {}
    """The kinds of keys that it can judge by, and what each needs in `Key.about`."""

    note: ClassVar[str] = ""
    """What a reader of its numbers must know."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that change no verdict, such as an address or a price limit; they do not identify it."""
    instead: ClassVar[Mapping[str, str]] = {}
    """What to do instead, by the name of a setting that it has no field for, such as a server's key; the
    error says that and never what was given."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What verdicts depend on besides fields and version, such as a library's version."""
        return {}

    @property
    def outward(self) -> Sequence[str]:
        """The fields that lead elsewhere: to a server, a file, a model; by default addresses of other machines.

        `score` takes them from a run folder, which may be a stranger's, only if they are given again.
        """
        known: Sequence[Any] = fields(self) if is_dataclass(self) else ()
        return [f.name for f in known if elsewhere(str(getattr(self, f.name)))]

    @property
    def stopped(self) -> str:
        """Why it judges no more, such as a key that a server refuses; empty while it does."""
        return ""

    @abstractmethod
    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply, in order; it must not depend on the other replies.

        What cannot be judged now is ``pending``, and so is everything if this raises.
        """
