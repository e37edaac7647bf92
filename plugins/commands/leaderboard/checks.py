"""All checks by level, and how they are made: a level is begun when those below found no reason to reject."""

from __future__ import annotations

from collections.abc import Iterator

from edit_harness.errors import HarnessError

from . import consistency, data, doubts, form, numbers
from .evidence import Evidence
from .findings import Check, Finding, Rejected, Remark, Unchecked, shown

CHECKS: tuple[Check, ...] = (
    *form.CHECKS, *data.CHECKS, *numbers.CHECKS, *consistency.CHECKS, *doubts.CHECKS,
)  # fmt: skip
REPLAY = "4.1"
HIGHEST = 3
"""The level of the last check that needs no model."""


def found(evidence: Evidence, level: int) -> Iterator[Finding]:
    """Make the checks up to a level, and yield what each comes to.

    Of level 0 the first failure ends all, as nothing can be read then; of others the level's checks are
    all made, since each tells something of its own.
    """
    for wanted in range(min(level, HIGHEST) + 1):
        failed = False
        for check in (check for check in CHECKS if check.level == wanted):
            findings = list(_made(check, evidence))
            failed |= any(finding.outcome == "failed" for finding in findings)
            yield from findings
            if failed and wanted == 0:
                return
        if failed:
            return


def _made(check: Check, evidence: Evidence) -> Iterator[Finding]:
    """Yield what a check comes to; whatever goes wrong in it is the bundle's fault."""
    remarks: list[Remark] = []
    try:
        remarks += check.run(evidence)
    except Rejected as error:
        remarks.append(str(error))
    except MemoryError:
        raise
    except (
        HarnessError
    ) as error:  # a plugin that is here cannot make sense of it, and that is no proof
        remarks.append(Unchecked(f"cannot be made: {shown(error.cause)}"))
    except Exception as error:  # a bundle may hold anything where numbers or texts should be
        remarks.append(f"cannot be read: {type(error).__name__}: {shown(str(error))}")
    yield from (Finding.of(check, remark) for remark in remarks)
    if not remarks:
        yield Finding(check.number, check.name, "passed")
