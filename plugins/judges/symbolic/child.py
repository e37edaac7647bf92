"""The process in which replies are judged: requests in, verdicts out, a line of JSON for each.

It is a process of its own so that a reply can be given up: algebra does not let itself be
interrupted, and its memory is limited here. Started by `edit_harness_plugins.judges.symbolic.worker`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from edit_harness import Verdict

from .rule import BadKey
from .verdicts import verdict

MEMORY = 2 << 30
"""Bytes of address space, where the platform has such a limit."""


def main() -> None:
    """Judge what comes in until there is no more."""
    _limit_memory()
    _say({"ready": True})
    for line in sys.stdin:
        _say(_answer(json.loads(line)))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict, or what is wrong with the key."""
    try:
        return asdict(verdict(**request))
    except BadKey as error:
        return {"bad key": str(error)}
    except (MemoryError, RecursionError) as error:
        note = "not read: too large" if isinstance(error, MemoryError) else "not read: too deep"
    except Exception as error:
        note = f"not compared: {type(error).__name__}"
    return asdict(Verdict("undecided", 0.0, note=note))


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
