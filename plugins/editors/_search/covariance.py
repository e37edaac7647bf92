"""The place of `edit_harness_plugins.editors.covariance` up to 0.2, for packages of that time."""

from collections.abc import Sequence

from edit_harness.model.model import Model

from .. import covariance as moved
from ..covariance import Covariance, collect, save

__all__ = ["Covariance", "collect", "covariance", "save"]


def covariance(
    model: Model, layer: int, files: Sequence[str], editor: str, without: str = ""
) -> Covariance:
    """Return the covariance of one layer's keys."""
    return next(moved.covariance(model, [layer], files, editor=editor, without=without))
