"""What can go wrong for a user, and the exit code of each kind.

The command line prints cause and remedy and no traceback. Plugins raise these too:
``raise DataError("no field 'x' in a.json:3", "add it")``.
"""

from __future__ import annotations


class HarnessError(Exception):
    """The cause in one line, and a remedy: what to do, or the command that would work."""

    code = 70

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy

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

    ``what`` changed; ``by`` says who it was, if not the editor. No row of the cases at work is written.
    """

    def __init__(self, what: str, by: str = "", where: str = "") -> None:
        super().__init__(
            f"{by or 'the editor'} changed the model itself{where}; not as before: {what}",
            "put back what is changed for a while; then start the same command again",
        )
        self.what, self.by = what, by


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


def printable(text: str) -> str:
    r"""Return a text with escapes such as ``\x1b`` for control characters and invisible marks; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str) -> str:
    """Return the same in one line, so that a text cannot fake a further line."""
    return printable(text).replace("\n", r"\n")


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 case``, ``1,200 cases``; ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
