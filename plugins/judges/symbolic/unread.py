"""What is raised by everything that reads a reply."""

from __future__ import annotations


class Unread(Exception):
    """A reply, or a part of it, that cannot be read, and why in a few words."""

    def __init__(self, why: str, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
        """Whether a limit is exceeded, so that nothing else need be tried."""
