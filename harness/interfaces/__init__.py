"""What a plugin implements: `Editor`, `Task`, `Metric`, `Judge`, `Control`, `ModelSource`, `Executor`.

The first five are dataclasses whose fields are their hyperparameters: the flag
``--editor-args layer=5`` sets a field, and the fields go into the record of the run.
"""

from .control import Control
from .editor import FROM_PRESET, Editor, Making, ModelShape, Origin, Preset, whole
from .executor import Executor, ModelSource
from .judge import Judge
from .metric import RANGES, Measure, Metric
from .regime import MODES, Mode, Regime
from .task import Task

__all__ = [
    "FROM_PRESET", "MODES", "RANGES", "Control", "Editor", "Executor", "Judge", "Making", "Measure",
    "Metric", "Mode", "ModelShape", "ModelSource", "Origin", "Preset", "Regime", "Task", "whole",
]  # fmt: skip
