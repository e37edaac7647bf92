"""What can go wrong for a user, and the exit code of each kind.

An error carries its cause and its remedy, one line each; the command line prints both and no
traceback. A plugin raises these too: ``raise DataError("no field 'x' in a.json:3", "add it")``.
"""

from __future__ import annotations

from collections.abc import Collection


class HarnessError(Exception):
    """The cause in one line, and a remedy: what to do, or the command that would work."""

    code = 70

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause}\n{self.remedy}" if self.remedy else self.cause


class CaseError(HarnessError):
    """A case failed, and the run was told to stop there."""

    code = 1


class UsageError(HarnessError):
    """A flag or an argument that makes no sense."""

    code = 2


class PluginError(HarnessError):
    """A component that is missing, ambiguous, broken or does not fit the model."""

    code = 3


class LeakError(PluginError):
    """An editor changed the model itself, or how it computes, so that nothing can go on with it.

    ``what`` is not as it was; ``visits`` are those whose rows were at work and are not written;
    ``by`` says who it was, if it was not the editor.
    """

    def __init__(
        self,
        what: str,
        visits: Collection[tuple[str, int]] = (),
        *,
        editor: str = "the editor",
        where: str = "",
        remedy: str = "put back what is changed for a while; then: --retry-failed --reload-on-leak",
        by: str = "",
    ) -> None:
        super().__init__(f"{editor} changed the model itself{where}; not as before: {what}", remedy)
        self.what, self.visits, self.by = what, visits, by


class DataError(HarnessError):
    """Data, statistics or a model that are missing, corrupt or out of reach offline."""

    code = 4


class ResourceError(HarnessError):
    """Memory, disk or a device that is not there or not enough."""

    code = 5


class RunFolderError(HarnessError):
    """A run folder that is damaged or belongs to another run."""

    code = 7


class Terminated(BaseException):
    """SIGTERM: ends a run as Ctrl-C does, with a code of its own."""
