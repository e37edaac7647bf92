"""From a name to a model in memory, on whatever devices there are: models in the layout of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edit_harness import Case, ModelSource, hookimpl

if TYPE_CHECKING:
    from edit_harness.folder.manifest import Preview
    from edit_harness.model.model import Model


@hookimpl
def edit_harness_load_model(source: ModelSource, options: Mapping[str, Any]) -> Model:
    """Load it with transformers."""
    from .load import load

    return load(source, **options)


@hookimpl
def edit_harness_try_model(model: Model, case: Case) -> None:
    """Ask it in batches and alone, and under edits that change nothing."""
    from . import trial

    trial.check_batches(model)
    trial.check_nothing(model, case)


@hookimpl
def edit_harness_preview(model: Model, cases: Sequence[Case]) -> Preview | None:
    """Answer prompts alone and in a batch."""
    from . import trial

    return trial.preview(model, cases)
