"""The hooks that a plugin may implement: this file is the extension manual.

A plugin is a module with functions of these names, marked ``@hookimpl`` and advertised by an entry point
in the group ``edit_harness``. An implementation names only those arguments that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from .data import Answer, Case, Choose
    from .folder.manifest import Identity, Preview
    from .interfaces import ModelSource
    from .model.model import Model
    from .run.results import Results

GROUP = "edit_harness"
DISTRIBUTION = "edit-harness"
BUNDLED = "edit_harness.bundled"
"""The group of entry points that are always loaded: our commands, controls, the loading of models."""
API = 2
"""The version of the plugin interface; it grows when a plugin that worked may break. A plugin may say which
it was made for: ``edit_harness_api = 2``."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class Register(Protocol):
    """Registers one component."""

    def __call__(self, name: str, factory: type | str, summary: str = "") -> None:
        """Make ``factory``, a class or a lazy ``"package.module:Class"``, available as ``name``.

        A name is made of a-z, 0-9 and single hyphens. Raises `PluginError` for another one or a second.
        """


class RegisterCommand(Protocol):
    """Registers one command."""

    def __call__(self, name: str, command: str, summary: str, group: str = "") -> None:
        """Make ``edit-harness NAME`` of a click command, ``"package.module:command"``, imported when called.

        ``group`` is its heading in ``--help``. A bundled command's name is reached as ``distribution/name``.
        """


class RegisterKind(Protocol):
    """Registers one kind of components."""

    def __call__(self, name: str, base: type | str, summary: str = "") -> None:
        """Let packages register subclasses of ``base`` by ``edit_harness_register_<name>s(register)``."""


@hookspec
def edit_harness_register_editors(register: Register) -> None:
    """Register editors: subclasses of `edit_harness.Editor`."""


@hookspec
def edit_harness_register_tasks(register: Register) -> None:
    """Register tasks: subclasses of `edit_harness.Task`."""


@hookspec
def edit_harness_register_metrics(register: Register) -> None:
    """Register metrics: subclasses of `edit_harness.Metric`."""


@hookspec
def edit_harness_register_judges(register: Register) -> None:
    """Register judges: subclasses of `edit_harness.Judge`."""


@hookspec
def edit_harness_register_controls(register: Register) -> None:
    """Register controls of side effects: subclasses of `edit_harness.Control`."""


@hookspec
def edit_harness_register_models(register: Register) -> None:
    """Register models that a package brings along: subclasses of `edit_harness.ModelSource`."""


@hookspec
def edit_harness_load_model(source: ModelSource, options: Mapping[str, Any]) -> Model | None:
    """Load a model from ``source.path``; None for one in another plugin's layout. The last to be loaded is asked first.

    ``options`` are those of `edit_harness_plugins.loading.load`, which takes what transformers can load.
    """


@hookspec
def edit_harness_try_model(model: Model, case: Case) -> None:
    """Raise an error if the answers of a model that is loaded cannot be trusted.

    A run calls it before its first edit, with one of its cases; the model stays as it is.
    """


@hookspec
def edit_harness_preview(model: Model, cases: Sequence[Case]) -> Preview | None:
    """Measure what a precision below float32 does to a model's answers; None in full precision."""


@hookspec
def edit_harness_watch(model: Model) -> Choose | None:
    """Return a text that every batch and sequence is asked besides, so that a collapse shows; or None.

    The first word is the prompt, the others the candidate. Of several plugins, the last to be loaded is heard.
    """


@hookspec
def edit_harness_register_executors(register: Register) -> None:
    """Register executors, which run the cases: subclasses of `edit_harness.Executor`."""


@hookspec
def edit_harness_register_commands(register: RegisterCommand) -> None:
    """Register commands of ``edit-harness``; a file that ``--plugin`` names comes too late for that."""


@hookspec
def edit_harness_register_kinds(register: RegisterKind) -> None:
    """Register kinds of components, for the package itself and those loaded after it, by name."""


@hookspec
def edit_harness_check_answers(
    source: ModelSource,
    identity: Identity,
    answered: Callable[[], Iterator[tuple[Case, Sequence[Answer | None]]]],
) -> str | None:
    """Object to a model's answers before any edit, in a line; None if they are as known.

    A run asks when all its rows are made. After an objection it withdraws the new rows and ends with exit
    code 7. ``identity`` is what the run's numbers depend on; ``answered`` yields each case with its answers.
    """


@hookspec
def edit_harness_results(run: Results) -> Mapping[str, Any] | None:
    """Return further entries of ``results.json``, JSON-ready, that follow from a run's folder alone; or None."""


@hookspec
def edit_harness_run_finished(run: Results) -> str | list[str] | None:
    """Use a finished run, such as to write a further table into its folder; return lines to print."""


@hookspec
def edit_harness_register_adaptors(register: Register) -> None:
    """Register adaptors and prompters, so that edits with them can be saved and loaded by name.

    They are dataclasses whose fields are tensors or JSON: see `edit_harness.edits.Adaptor`.
    """


@hookspec
def edit_harness_register_suites(register: Register) -> None:
    """Register conformance suites, by which ``edit-harness plugins check`` tries this package's components.

    They are subclasses of those in `edit_harness.testing`, named as text, since they need pytest. A component
    without a suite is tried with its defaults. A judge or a builder needs one: its author gives replies.
    """
