"""The interface of judges, which give verdicts on texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..data import Reply, Verdict


class Judge(ABC):
    """Tells whether texts are right; it knows neither model nor edit."""

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, str]] = {}
    """The kinds of keys that it can judge by, and what each needs in `Key.about`."""
    note: ClassVar[str] = ""
    """What readers of its numbers must know."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that change no verdict, such as an address or a price limit, and so do not identify it."""
    instead: ClassVar[Mapping[str, str]] = {}
    """What to do instead of giving a setting that must not be one, such as a server's key, by its name."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What verdicts depend on besides fields and version, such as a library's version."""
        return {}

    @property
    def outward(self) -> Sequence[str] | None:
        """The fields that name a server, a file or a model; None for those with addresses of other machines.

        ``score`` takes none of them from a run folder, which may be a stranger's.
        """
        return None

    @property
    def stopped(self) -> str:
        """Why it stopped judging, such as a key that a server refuses; empty while it judges."""
        return ""

    @abstractmethod
    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply, in order and independent; if this raises, all are pending."""
