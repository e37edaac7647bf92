"""What a run folder says of its run: the manifest, and in it the identity that the fingerprint covers.

A manifest that anybody wrote becomes one of these types or an error, so that nothing after it stumbles
over another form. Whether a name is installed or a digest right is told where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, to_builtins

from .. import files
from ..errors import UsageError
from ..interfaces import Regime

AGAIN = "the command that made the run writes it again"
Typed = TypeVar("Typed", bound=Struct)
Visits = Sequence[tuple[str, int]]


class EditorId(Struct, frozen=True, kw_only=True):
    """The editor of a run."""

    name: str
    version: str
    """The distribution that it is of, and its version."""
    fields: Mapping[str, Any]
    provenance: Mapping[str, Any]
    """Digests of what else its edits depend on."""


class JudgeId(EditorId, frozen=True, kw_only=True):
    """The judge of a run's texts."""

    note: str = ""


class ControlId(JudgeId, frozen=True, kw_only=True):
    """A control that edited models were put to."""

    id: str
    asks: str
    """A digest of what it asks; empty if its provenance has that."""


class TaskId(Struct, frozen=True, kw_only=True):
    """The task of a run."""

    name: str
    version: str
    data: str
    """A digest of all its cases."""


class ModelId(Struct, frozen=True, kw_only=True):
    """The model of a run, by its digests."""

    digest: str
    config: str
    tokenizer: str
    dtype: str


class Identity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the numbers of a run depend on: all that the fingerprint covers."""

    schema: int
    editor: EditorId
    task: TaskId
    metrics: Sequence[str]
    measured_by: Mapping[str, Mapping[str, Any]] = {}
    """What metrics' numbers depend on besides answers, by metric."""
    judge: JudgeId | None
    model: ModelId
    regime: Regime
    together: str
    """A digest of the cases, where edits share a model; empty where they do not."""
    seed: Annotated[int, Meta(ge=0)]
    controls: list[ControlId] = []
    sample: int = 0
    """How many single edits are put to the controls."""
    code: Sequence[tuple[str, str]]
    """The distributions at work, with the digests of their code."""

    @property
    def asked(self) -> list[str]:
        """The ids of the controls."""
        return [each.id for each in self.controls]


class Asked(Struct, frozen=True, kw_only=True):
    """Finished cases that were asked again in another environment."""

    cases: int
    apart: float
    """By how many nats the answers differ at most."""


class Segment(Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """Rows that were made in one environment."""

    first: int
    last: int | None
    """None up to the end."""
    environment: Mapping[str, str]
    asked: Asked | UnsetType = UNSET


class ModelInfo(Struct, frozen=True, kw_only=True):
    """The model of a run as it was named and found."""

    name: str
    path: str
    revision: str | None = None
    """The hub's commit."""
    note: str | None = None
    parameters: int = 0
    let_in: Mapping[str, str] = {}
    """What the user let in to load it."""


class TaskInfo(Struct, frozen=True, kw_only=True):
    """What the task said of its cases."""

    origin: str | None = None
    notes: Sequence[str] = ()
    conflicts: str = ""


class Preview(Struct, frozen=True, kw_only=True):
    """A precision below float32, and what it does to the unedited model's answers."""

    precision: str
    floor: float
    """Mean divergence of next-token distributions from themselves, in nats."""
    largest: float
    """Largest difference of a log-probability among the likely tokens, in nats."""

    def __str__(self) -> str:
        return (
            f"a preview in {self.precision}: rounding alone moves distributions by {self.floor:.1e} "
            "nats; scores of record are float32"
        )


class Tuning(Struct, frozen=True, kw_only=True):
    """By which cases the editor's fields were tuned."""

    fields: Sequence[str]
    task: str
    cases: int
    cases_sha256: str
    marks: Sequence[str]
    """Marks of these cases: digests of their facts."""
    score: Mapping[str, Any]


class ShardInfo(Struct, frozen=True, kw_only=True):
    """The place of a shard in the plan of its run."""

    number: int
    of: int
    cases: Sequence[str]
    cases_digest: str
    planned: int
    """How many visits the plan has."""
    spans: Sequence[tuple[int, int]]
    """Which of them are the shard's."""
    visits: Visits
    """What these are called, in the order of the plan."""

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"


class Manifest(Struct, frozen=True, kw_only=True):
    """What a run folder says of its run."""

    fingerprint: str = ""
    identity: Identity
    cases: list[str]
    cases_sha256: str = ""
    judged_by: JudgeId | None = None
    """Who judged, where the identity names nobody."""
    judge_settings: Mapping[str, Any] | None = None
    label: str
    """The editor as tables show it."""
    metrics: Sequence[str]
    visits: int
    preset: str
    """Where the editor's fields come from."""
    tuned: Tuning | None = None
    found: Mapping[str, Any] = {}
    """What the editor told of itself."""
    preview: Preview | None
    model: ModelInfo
    task: TaskInfo = TaskInfo()
    distributions: Sequence[Mapping[str, str]] = ()
    segments: Sequence[Segment] = ()
    shard: ShardInfo | UnsetType = UNSET

    @property
    def judge(self) -> JudgeId | None:
        """What judged the texts, or is to judge what waits; None if nobody is named yet."""
        return self.identity.judge or self.judged_by


def as_json(said: Struct) -> dict[str, Any]:
    """Return a manifest, or a part of one, as JSON-ready data."""
    return dict(to_builtins(said))


def fingerprint(identity: Identity) -> str:
    """Return a SHA-256 over what the numbers of a run depend on."""
    return files.digest(as_json(identity))


def decoded(data: Any, kind: type[Typed]) -> Typed:
    """Return JSON data as a manifest, or a part of one. Raises `ValueError` that names what is wrong."""
    try:
        return convert(data, kind)
    except UsageError as error:  # of a regime that there is not
        raise ValueError(error.cause) from None
    except ValidationError as error:
        raise ValueError(str(error).replace(" - at `$.", " - at `")) from None
