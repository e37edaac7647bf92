"""The digest that a derived file carries of its own other content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from edit_harness.encoding import dumps

KEY = "sha256"


def digest(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the digest, as canonical JSON."""
    return hashlib.sha256(dumps({k: v for k, v in data.items() if k != KEY}).encode()).hexdigest()


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with their digest."""
    return {**data, KEY: digest(data)}
