"""Whether a key is one that a judge can use: the errors are the same for all judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from edit_harness import Key, PluginError


def check(key: Key, judge: str, kinds: Mapping[str, str], needs: Mapping[str, type]) -> None:
    """Raise `PluginError` for a key of another kind, or without what ``needs`` names."""
    if key.kind not in kinds:
        raise PluginError(
            f"{judge} knows no key of kind {key.kind!r}", f"its kinds are {', '.join(kinds)}"
        )
    for name, type_ in needs.items():
        if not isinstance(key.about.get(name), type_) or not key.about[name]:
            refuse(key, name, kinds)


def refuse(key: Key, name: str, kinds: Mapping[str, str]) -> NoReturn:
    """Raise `PluginError` for what a key has under a name."""
    raise PluginError(
        f"a key of kind {key.kind!r} has no proper {name!r}: {key.about.get(name)!r}",
        f"it needs {kinds[key.kind]}",
    )
