"""A record: what one case yielded in one edited model, and how the log keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from ..data import Visit
from ..files import dumps
from .log import Log, parsed

OK, INVALID = "ok", "invalid_case"
"""The statuses of a case that was run, and of one that could not be."""
STATUSES = (
    OK, "edit_failed", "nonfinite", "too_long", INVALID, "oom", "timeout", "device_error",
    "plugin_error", "leak", "error",
)  # fmt: skip
"""What may become of a case. All but the first are failures; an invalid one counts nowhere."""
FIRST = ("case", "state", "attempt", "status")
Count = Annotated[int, Meta(ge=0, lt=2**31)]
T = TypeVar("T")


class Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when they are asked for; one is equal to a list of the same."""

    def _at(self, number: int) -> T:
        """Return the item of a number from 0."""
        raise NotImplementedError

    def __getitem__(self, which: Any) -> Any:
        numbers = range(len(self))[which]
        return [self._at(n) for n in numbers] if isinstance(numbers, range) else self._at(numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Record(msgspec.Struct, frozen=True, rename={"attempt": "try"}):
    """What one case yielded."""

    case: str
    status: str
    """One of `STATUSES`."""
    values: Mapping[str, Mapping[str, Any]]
    """Numbers by metric, then by name."""
    state: Count = 0
    """Which edited model answered: see `edit_harness.run.plan.Step.state`."""
    attempt: Count = 1
    """The number of the try, where failed cases were run again."""
    before: Sequence[Any] = ()
    """Raw answers of the case's probes, as `edit_harness.folder.encoding.encode_answer` gives them."""
    after: Sequence[Any] = ()
    edit: Mapping[str, Any] = {}
    """The editor's diagnostics."""
    noop: bool = False
    """Whether the edit changed none of the answers: see `edit_harness.folder.encoding.unchanged`."""
    seconds: Mapping[str, Any] = {}
    message: str = ""

    @classmethod
    def of_no_use(cls, case: str, why: object, state: int = 0) -> Record:
        """Return the record of a case that cannot be used, for a reason or an error."""
        return cls(case, INVALID, {}, state=state, message=str(why).replace("\n", "; "))

    @classmethod
    def read(cls, data: bytes, *, strict: bool = False) -> Record:
        """Return the record of a line of the log. Raises `ValueError` if it is none.

        ``strict`` is of a stranger's: every value is a number.
        """
        try:
            row = ROW.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:  # see `parsed`
            row = msgspec.convert(parsed(data), Row)
        if strict and any(None in its.values() for its in row.values.values()):
            raise ValueError("Expected `float`, got `null`")
        return cls(*msgspec.structs.astuple(row)[: len(cls.__struct_fields__)])

    @property
    def visit(self) -> Visit:
        """What tells it apart from the other records of a run."""
        return self.case, self.state

    @property
    def verdicts(self) -> Counter[str]:
        """How many texts there are with a verdict of each status."""
        answers = (a for a in (*self.before, *self.after) if isinstance(a, Mapping))
        return Counter(a["verdict"]["status"] for a in answers if a.get("verdict"))

    @property
    def row(self) -> dict[str, Any]:
        """What the log keeps of it, in the order of the keys there."""
        rest = {
            **msgspec.structs.asdict(self),
            "before": list(self.before),
            "after": list(self.after),
        }
        first = {"try" if key == "attempt" else key: rest.pop(key) for key in FIRST}
        return first | dict(sorted(rest.items()))

    def same_answers(self, other: Record) -> bool:
        """Tell whether two are of the same answers, whatever judges have said of them since."""
        if INVALID in (self.status, other.status):  # a judge may find a key to be of no use
            return True
        sides = ([r.status, *map(_unjudged, (*r.before, *r.after))] for r in (self, other))
        return len(set(map(dumps, sides))) == 1

    def contradicts(self, earlier: Record) -> bool:
        """Tell whether it is no further try after an earlier record, nor of the same answers: of another run then."""
        again = self.attempt == earlier.attempt and self.same_answers(earlier)
        return not (again or self.attempt > earlier.attempt)


class Row(Record, frozen=True, forbid_unknown_fields=True):
    """A record as its line in the log: with the log's own keys."""

    values: dict[str, dict[str, float | None]]
    seconds: dict[str, float | None] = {}
    v: int = 0
    seq: int = 0
    fp: str = ""
    crc: str = ""


class Brief(Row, frozen=True):
    """The same with answers as they stand there: what columns are made of."""

    before: list[msgspec.Raw] = []
    after: list[msgspec.Raw] = []


ROW, BRIEF = msgspec.json.Decoder(Row), msgspec.json.Decoder(Brief)


def _unjudged(answer: Any) -> Any:
    return {**answer, "verdict": None} if isinstance(answer, Mapping) else answer


class Writer:
    """Writes into a run folder that is held; what went wrong once ends it."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def seq(self) -> int:
        """The number of the next row."""
        return self._log.seq

    def __call__(self, record: Record) -> int:
        """Write a record, and return its row's number: then it is kept."""
        return self._log.append(record.row)

    def withdraw(self, first_seq: int, why: str) -> None:
        """Take back all rows from one to the last; they stay in the file, and count no more."""
        if first_seq < self.seq:
            self._log.append({"withdraws": [first_seq, self.seq - 1], "why": why})
