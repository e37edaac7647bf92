"""What a plugin implements: `Editor`, `Task`, `Metric`, `Judge`, `Control`, `ModelSource`, `Executor`.

The first five are dataclasses whose fields are their hyperparameters: the flag
``--editor-args layer=5`` sets a field, and the fields go into the record of the run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from . import composition
from .cases import Answer, Case, Graded, Query, Reply, Request, Verdict
from .errors import UsageError
from .escapes import elsewhere

if TYPE_CHECKING:
    import numpy as np

    from .edits import Edit
    from .model.model import Model
    from .run.loop import Turns


@dataclass(frozen=True)
class ModelShape:
    """What is known of a model without its weights."""

    family: str
    """Key into `Editor.presets`, such as ``"gpt2-xl"``; empty if no family is recognised."""
    type: str
    """The architecture's name in transformers, such as ``"gpt2"``."""
    layers: int
    hidden: int
    """Width of the residual stream."""


Origin = Literal["paper", "ported", "tuned", "guessed"]


@dataclass(frozen=True)
class Preset:
    """Hyperparameters for one model family, and where they come from."""

    values: Mapping[str, Any]
    source: str
    """A repository or a rule that the values are from."""
    origin: Origin = "ported"
    """paper: of the editor's authors for this family; ported: of others, or of the authors for a
    family like it; tuned: by experiments on this family; guessed: nobody has published any."""

    def __str__(self) -> str:
        return f"{self.origin} ({self.source})"


FROM_PRESET: Any = None
"""Default of an editor's field whose value depends on the model: it comes from a preset."""


RANGES: Mapping[str, tuple[float, float]] = {
    "%": (0.0, 1.0),
    "nats": (0.0, math.inf),
    "0.01 bits": (0.0, math.inf),
    "": (-math.inf, math.inf),
}
"""What a stored value is within, by its unit: shares, divergences, entropies."""


@dataclass(frozen=True)
class Measure:
    """How one number of a metric is shown, and what it means."""

    formula: str
    better: Literal["higher", "lower", ""] = "higher"
    unit: Literal["%", "nats", "0.01 bits", ""] = "%"
    """The stored value of a percentage is in [-1, 1], and one of hundredths of bits is in bits;
    tables show both times 100."""
    detail: bool = False
    """Whether tables leave it out unless asked for all."""
    range: tuple[float, float] | None = None
    """The least and the greatest value that can be stored, if not those of `RANGES`."""
    source: str = ""
    """The paper and its equation, and where the published code does otherwise."""
    probes: tuple[str, ...] = ()
    """The roles of the probes whose answers it is of."""
    known: bool = False
    """Whether its value before the edit is the share of true answers that the unedited model gives."""

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value that can be stored."""
        return self.range or RANGES[self.unit]


@dataclass(frozen=True)
class Making:
    """What the command ``prepare`` gives an editor or a task that has something made beforehand."""

    folder: Path
    """Where the cache keeps what belongs to this model's weights, or to this task; it may not exist
    yet."""
    data: str = ""
    """What ``--data`` said: a name or a file that the plugin knows how to read."""
    imported: str = ""
    """What ``--import`` said: a file of the authors to take over instead of making it."""
    report: Callable[[str], None] = print
    """Takes a line for the user, such as a validation figure."""
    advance: Callable[[int, int], None] = lambda done, total: None
    """Takes how much is done, and of how much."""


class Editor(ABC):
    """Turns requests into an `Edit` of a model, leaving the model as it was.

    A field that is `FROM_PRESET` takes its value from the preset of the model's family before
    any method with a model is called.
    """

    presets: ClassVar[Mapping[str, Preset]] = {}
    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What a request or a model must have, and what has to be prepared, in a few words."""

    @property
    def variant(self) -> str:
        """What tables add to the name in brackets, if the editor departs from its paper."""
        return ""

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The layers whose second moment of keys `prepare` looks for; the command computes it."""
        return ()

    @property
    def parts(self) -> Sequence[Editor]:
        """The editors that it is made of, from `check` on: see `edit_harness.inner`.

        Their second moments, their `make` and their provenance count as its own.
        """
        return ()

    @property
    def provenance(self) -> Mapping[str, str]:
        """Digests of what `prepare` found and the edits depend on, for the record of the run."""
        return {}

    @property
    def found(self) -> Mapping[str, Any]:
        """What `prepare` found that readers of a run want to see, such as sampled contexts.

        JSON-ready; it is stored with the run, and is no part of what identifies it.
        """
        return {}

    def guess(self, shape: ModelShape) -> Preset | None:
        """Return hyperparameters for a family without a preset, or None to ask the user."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if this model cannot be edited in this way."""

    def make(self, model: Model, making: Making) -> bool:
        """Make what `prepare` loads, such as a trained network, and store it in the cache.

        The command ``prepare`` calls it after computing the second moments of `moment_layers`.
        Return whether there is anything of the kind.
        """
        return False

    def prepare(self, model: Model) -> None:
        """Load or compute what edits share, such as statistics; not counted as edit time.

        Raises `DataError` that names the command if something has to be made first.
        """

    @abstractmethod
    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the one edit that makes the model, as it stands, comply with all requests."""

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an independent edit for each batch of requests.

        Override it if many edits can be found together for less than one by one.
        """
        return [self.edit(model, requests) for requests in batches]

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return ``previous`` enlarged by the requests; used when edits accumulate.

        Override it if old and new edits share state, as a codebook or a prompt does: the default edits
        under `Model.applied`, where adaptors and prefixes have no effect.
        """
        with model.applied(previous):
            return previous + self.edit(model, requests)


def whole(editor: Editor) -> Iterator[Editor]:
    """Yield an editor and those that it is made of, and those that they are made of."""
    yield editor
    for part in editor.parts:
        yield from whole(part)


Mode = Literal["single", "batch", "sequential"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Regime:
    """How edits share a model. It is carried out by `edit_harness.run.plan`; plugins do not know it.

    Raises `UsageError` for what does not fit the mode.
    """

    mode: Mode = "single"
    """single: every case on the unedited model; batch: so many at once; sequential: on top of those
    before."""
    size: int = 1
    """Cases edited at once; 0 is all of them."""
    in_turn: bool = False
    """Whether the requests of a case are written one after another, each on top of those before."""
    immediate: bool = False
    """In a sequence: whether every case is also measured right after its own edit."""
    checkpoints: tuple[int, ...] = ()
    """In a sequence: all cases so far are measured when it has so many; at its end in any case."""
    apart: str = ""
    """In a batch: the tag of cases that keeps them apart, so that only cases that have the same value
    are edited at once; empty if all may be."""
    conflicts: Literal["keep", "drop"] = "keep"
    """drop: of the cases that write different objects to one subject and relation, the first alone is
    there; before any limit, as MEMIT's authors filter CounterFact."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"there is no mode {self.mode!r}", f"known: {', '.join(MODES)}")
        if type(self.size) is not int or self.size < 0:
            raise UsageError(f"a size of {self.size!r} is no number of cases", "0 is all of them")
        if self.mode == "single" and self.size != 1:
            raise UsageError("single edits are of one case each", 'Regime("batch", N)')
        if self.mode != "sequential" and (self.immediate or self.checkpoints):
            raise UsageError(
                f"checkpoints are for sequential edits, and this is {self.mode}",
                'Regime("sequential", ...)',
            )
        if any(type(point) is not int or point < 1 for point in self.checkpoints):
            raise UsageError(f"{self.checkpoints} are no numbers of cases", "they begin at 1")
        if self.conflicts not in ("keep", "drop") or (self.conflicts, self.mode) == (
            "drop",
            "single",
        ):
            raise UsageError(
                f"conflicts are kept or dropped where edits share a model, not {self.conflicts!r} here",
                'Regime("batch", N, conflicts="drop"), or --edit-mode batch --edit-conflicts drop',
            )
        if self.apart and self.mode != "batch":
            raise UsageError(
                f"cases are kept apart in batches, and this is {self.mode}",
                'Regime("batch", 0, apart=TAG)',
            )

    def __str__(self) -> str:
        turns = ", a case's requests in turn" if self.in_turn else ""
        if self.mode == "single":
            return f"single{turns}"
        size = f"{self.size} at once" if self.size else "all at once"
        size += ", conflicts dropped" if self.conflicts == "drop" else ""
        if self.mode == "batch":
            apart = f", each {self.apart} apart" if self.apart else ""
            return f"batch, {size}{apart}{turns}"
        points = [str(point) for point in self.checkpoints]
        when = [*(["each"] if self.immediate else []), *points, "the end"]
        return f"sequential, {size}{turns}, measured at {', '.join(when)}"


class Task(ABC):
    """A benchmark: a stream of cases, and the metrics that belong to it."""

    version: ClassVar[str] = "0"
    metrics: ClassVar[Sequence[str]] = ()
    citation: ClassVar[str] = ""
    protocol: ClassVar[str] = ""
    """Which prompts are asked, and how what follows them is joined, scored or sampled."""
    regime: ClassVar[Regime] = Regime()
    """How its cases are edited if the user does not say."""
    judge: ClassVar[str] = ""
    """The judge of its texts if the user does not name one; empty if it has no texts to judge."""

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """Yield the cases, in a fixed order. Raises `DataError` for data that are not right.

        All are read before a run begins, whatever its limit, since their digest is part of what identifies
        it. A record that nothing can be asked of is a case without requests that has a ``problem``.
        """

    def bind(self, source: ModelSource) -> Self:
        """Return the task as it is put to this model, such as with the sample that it brings."""
        return self

    @property
    def origin(self) -> str:
        """Say in a few words which data the cases come from."""
        return ""

    def make(self, making: Making) -> bool:
        """Make what `cases` reads besides the data, such as a file of tags, and store it.

        The command ``prepare`` calls it. Return whether there is anything of the kind.
        """
        return False

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the data without reading them: records, address, size, checksum."""
        return {}

    def composition(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return tables that say what the data are made of, by title; rows are of named cells.

        By default they count cases, requests and probes. Raises `DataError` as `cases` does.
        """
        return composition.of_cases(self.cases())


class Metric(ABC):
    """Numbers for one case, and their summary over all cases.

    A value named ``pre_X`` describes the model before the edit, ``post_X`` after it.
    """

    citation: ClassVar[str] = ""
    measures: ClassVar[Mapping[str, Measure]] = {}
    """The numbers of `summarize` by their name without ``pre_`` and ``post_``."""

    @abstractmethod
    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> Mapping[str, float]:
        """Return named values, or {}; the answers are in the order of ``case.probes``."""

    def provenance(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """Digests of what its numbers depend on besides answers, such as texts in the cache."""
        return {}

    def failed(self, case: Case, before: Sequence[Answer]) -> Mapping[str, float]:
        """Return the values of a case whose edit failed; what is left out is not counted.

        ``before`` is empty if the case could not be asked at all. By default nothing is counted.
        """
        return {}

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Combine the values of all cases, NaN where a case has none; intervals come by themselves."""
        from .stats import column_means

        return column_means(columns)

    def tables(
        self, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return what `summarize` has no room for, such as groups, as tables by title.

        A column has an item for every case, NaN where it has no value. Rows are of named cells:
        texts, None, or numbers, in the unit they are stored in unless a name says otherwise. The
        first table is the one that is shown without being asked for. By default there are none.
        """
        return {}


class Judge(ABC):
    """Tells whether texts are right, from the texts alone: it knows neither model nor edit."""

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, str]] = {}
    """The kinds of keys that it can judge by, and what each needs in `Key.about`."""

    note: ClassVar[str] = ""
    """What a reader of its numbers must know."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that say how it is reached and what it may cost, and not what it says; they are no
    part of what identifies it."""

    instead: ClassVar[Mapping[str, str]] = {}
    """What to do instead, by the name of a setting that it is asked for and has no field for, such as
    a key of a server; the error says that and never what was given."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What verdicts depend on besides fields and version, such as a library's version."""
        return {}

    @property
    def outward(self) -> Sequence[str]:
        """The fields by which these settings lead elsewhere: to a server, a file, a model to load.

        `score` takes them from a run folder only if they are given again, since a folder may be a
        stranger's. By default they are those that hold an address of another machine.
        """
        known: Sequence[Any] = fields(self) if is_dataclass(self) else ()
        return [f.name for f in known if elsewhere(str(getattr(self, f.name)))]

    @property
    def stopped(self) -> str:
        """Why it judges no more, such as a key that a server refuses; empty while it does."""
        return ""

    @abstractmethod
    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply, in order; it must not depend on the other replies.

        What cannot be judged now is ``pending``, and so is everything if this raises.
        """


class Control:
    """Asks edited models of what no edit is about, so that side effects show; see `edit_harness.run.effects`.

    It gives either a `query`, which any edit can be put to, or its own `examine`, which sees a module
    that holds the edit: an edit by adaptors or a prefix is refused there before the run.
    """

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What has to be installed or at hand, in a few words."""
    note: ClassVar[str] = ""
    """What a reader of its numbers must know."""
    takes: ClassVar[str] = ""
    """The field that ``--control NAME:VALUE`` sets; empty if there is none."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that say how it is done and not what is measured; they are no part of what identifies
    it, so that what they lead to belongs into `provenance`."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What its numbers depend on besides fields and version, such as a digest of its documents."""
        return {}

    def load(self) -> None:
        """Load what it needs besides a model, such as its documents.

        Raises `UsageError` for settings that name nothing, and `DataError` for data that are not there.
        """

    def prepare(self, model: Model) -> None:
        """Get ready for a model, which stays as it is; called again for each copy of it."""

    def query(self, model: Model) -> Query | None:
        """Return what each edited model is asked; None if `examine` is to measure it."""
        return None

    def examine(self) -> Graded:
        """Measure the model that it was prepared for, whose module holds an edit now, or none.

        The same model and documents give the same marks. What it changes about the process is put
        back. It is not called if there is a `query`.
        """
        raise NotImplementedError(f"{type(self).__name__} neither asks a query nor examines")


class Executor(ABC):
    """Who runs the cases; its settings are its dataclass fields."""

    elsewhere: ClassVar[bool] = False
    """Whether the model is loaded by others, by its name; this process then only identifies it."""

    @contextmanager
    def ready(self) -> Iterator[str]:
        """Hold what is needed while a block lasts, and yield where cases are run if it is not here.

        Raises `HarnessError` if that is not there.
        """
        yield ""

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how this process loads the model. Raises `UsageError` for what others cannot do."""
        return dict(options)

    @abstractmethod
    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return what makes the records of runs; ``loading`` says how their model is loaded.

        It has what a `RunSpec` has not: arguments of `edit_harness.loading.loading.load` that change no number.
        """


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from, and what comes along with it."""

    path: str
    """A folder in the layout of transformers, or a name on the hub."""
    family: str = ""
    """Overrides the recognition by shape."""
    note: str = ""
    """What a reader of the model's numbers must know."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Files for tasks, by the name that a task's `bind` looks for."""
    moments: str = ""
    """A folder with second-moment statistics."""
    baselines: str = ""
    """A folder with what it answers to tasks before any edit: see `edit_harness_plugins.commands.leaderboard.baseline`."""
