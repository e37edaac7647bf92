"""Tasks of lm-evaluation-harness, put to the very module in memory, with what it measured per document.

Measures are summed up anew (`edit_harness_plugins.controls.effects`); one whose sum is not a mean, a perplexity or bits
per byte is left out, such as F1 over a corpus.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from edit_harness import Control, DataError, Graded, Marks, UsageError
from edit_harness.registry.guard import said
from edit_harness.registry.registry import suggestion
from edit_harness.registry.settings import Count, Natural

if TYPE_CHECKING:
    from edit_harness.model.model import Model

SEED = 1234
"""Of few-shot examples and all else that is drawn; lm-evaluation-harness's own."""
HOWS = {
    "mean": "mean", "nanmean": "mean", "perplexity": "perplexity",
    "weighted_perplexity": "perplexity", "bits_per_byte": "bits",
}  # fmt: skip
"""How values are summed up, by the names of lm-evaluation-harness's functions."""
GENERAL = ("mmlu", "gsm8k", "arc_challenge", "hellaswag", "truthfulqa_mc2", "winogrande")
"""What papers on edits in sequence put to the edited model."""
Sample = Mapping[str, Any]


@dataclass
class LMEval(Control):
    """A task or a group of lm-evaluation-harness on the edited model, in memory, per document.

    A group counts every document of its tasks alike. Prompts have no chat template.
    """

    version = "1"
    citation = "Gao et al., The Language Model Evaluation Harness, doi:10.5281/zenodo.12608602"
    needs = "pip install 'edit-harness[control]'"
    takes = "task"
    practical = ("batch_size", "include_path")
    sets: ClassVar = {"general": GENERAL}

    task: str = ""
    """A task or group, as lm-evaluation-harness names it."""
    limit: Natural = 0
    """Documents of each task, the first ones; 0 is all."""
    num_fewshot: Natural | None = None
    """Examples before each question; by default as the task says."""
    include_path: str = ""
    """A folder with tasks of one's own, in lm-evaluation-harness's YAML."""
    batch_size: Count = 8
    """Rows of a forward pass."""
    _tasks: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _lm: Any = field(default=None, init=False, repr=False)

    @property
    def provenance(self) -> Mapping[str, str]:
        """The library's version, and digests of the tasks and of their documents."""
        return {
            "lm_eval": version("lm_eval"),
            "tasks": _digest(sorted(map(_described, self._tasks.values()))),
            "documents": _digest(
                [[*islice(t.eval_docs, self.limit or None)] for t in self._tasks.values()]
            ),
        }

    def load(self) -> None:
        """Find the task and load its documents."""
        if find_spec("lm_eval") is None:
            raise UsageError(
                "the control lm_eval needs lm-evaluation-harness",
                "pip install 'edit-harness[control]'",
            )
        if self.include_path and not Path(self.include_path).is_dir():
            raise UsageError(f"{self.include_path} is no folder", "include_path=DIR")
        with _quietly():
            manager = self._manager()
            known = manager.all_tasks
            if self.task not in known:
                raise UsageError(
                    f"lm-evaluation-harness has no task {self.task!r}{suggestion(self.task, known)}",
                    "lm-eval ls tasks lists them; --control-args include_path=DIR adds your own, of files "
                    "that are proper YAML",
                )
            self._tasks = self._loaded(manager)

    def _manager(self) -> Any:
        """Return an index with the task, that of one's own folder if it is there: all take seconds."""
        folder = str(Path(self.include_path).resolve()) if self.include_path else ""
        own = _index(folder, False) if folder else None
        return own if own is not None and self.task in own.all_tasks else _index(folder, True)

    def _loaded(self, manager: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = manager.load([self.task])["tasks"]
        except Exception as error:  # datasets and YAML fail in ways of their own
            raise DataError(
                f"lm_eval:{self.task} cannot be loaded: {said(error):.200}",
                "see to the task's file: its data, splits and columns; paths from the root are safest. "
                "Data of the hub are got by a run where there is a network, without HF_HUB_OFFLINE",
            ) from error
        for name, task in found.items():
            shots = task.get_config("num_fewshot")
            if self.num_fewshot and shots == 0:
                raise UsageError(
                    f"the file of lm_eval:{name} says num_fewshot: 0, so that "
                    f"num_fewshot={self.num_fewshot} has no effect",
                    "leave the setting out, or take the line out of the task's file",
                )
            wanted = self.num_fewshot if self.num_fewshot is not None else shots
            task.set_config(key="num_fewshot", value=wanted or 0)
        return found

    def prepare(self, model: Model) -> None:
        """Wrap the module; its tokenizer is copied, since a padding token may be added."""
        with _quietly():
            from lm_eval.models.huggingface import HFLM

            tokenizer = copy.deepcopy(model.tokens.tokenizer)
            self._lm = HFLM(model.module, tokenizer=tokenizer, batch_size=self.batch_size)

    def examine(self) -> Graded:
        """Run the tasks on the module as it is now."""
        import numpy as np
        import torch

        with _quietly():
            from lm_eval import evaluate

            # Each edited model gets the same examples.
            random.seed(0)
            np.random.seed(SEED)
            torch.manual_seed(SEED)
            for task in self._tasks.values():
                task.set_fewshot_seed(seed=SEED)
            found = evaluate(
                self._lm,
                {"tasks": self._tasks, "groups": {}},
                limit=self.limit or None,
                bootstrap_iters=0,
            )
        samples = [(name, s) for name in self._tasks for s in found["samples"][name]]
        asked = [[name, s["doc_id"], s["doc_hash"], s["prompt_hash"]] for name, s in samples]
        found_marks = dict(self._marks(samples))
        marks = {name: each for name, each in found_marks.items() if isinstance(each, Marks)}
        whys = {name: each for name, each in found_marks.items() if isinstance(each, str)}
        return Graded(_digest(asked), marks, whys)

    def _marks(self, samples: Sequence[tuple[str, Sample]]) -> Iterator[tuple[str, Marks | str]]:
        """Yield the measures of all tasks, or why there is no number that could be summed up."""
        found: dict[str, list[Any]] = {}
        for name, sample in samples:
            for metric in sample["metrics"]:
                known = sample["filter"] == "none"
                title = metric if known else f"{metric},{sample['filter']}"
                how = _how(self._tasks[name], metric)
                better = self._tasks[name].higher_is_better().get(metric)
                found.setdefault(title, []).append((sample[metric], how, better))
        for title, rows in found.items():
            values, hows, betters = zip(*rows, strict=True)
            if len({*hows}) > 1 or not hows[0]:
                yield title, "it is no mean over documents, no perplexity and no bits per byte"
            elif not (pairs := _pairs(values)):
                yield title, "its values are no numbers"
            elif bad := sum(not math.isfinite(v) for part in pairs for v in part):
                yield title, f"NaN or infinity of {bad} of {len(values)} documents"
            else:
                direction = {True: "higher", False: "lower"}.get(betters[0], "")
                yield title, Marks(*pairs, how=hows[0], better=direction)  # type: ignore[arg-type]
        for name in dict.fromkeys(n for task in self._tasks.values() for n in task.aggregation()):
            if not any(title.partition(",")[0] == name for title in found):
                yield name, "lm-evaluation-harness measures no such thing of this kind of task"


def _how(task: Any, metric: str) -> str:
    return HOWS.get(getattr(task.aggregation().get(metric), "__name__", ""), "")


def _pairs(values: Sequence[Any]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if all(isinstance(value, Real) for value in values):
        return tuple(map(float, values)), ()
    if all(isinstance(value, tuple) and len(value) == 2 for value in values):
        sums, weights = zip(*values, strict=True)
        return tuple(map(float, sums)), tuple(map(float, weights))
    return None


@cache
def _index(folder: str, everything: bool) -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=folder or None, include_defaults=everything)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep progress bars, prints and warnings off the screen; what fails is raised."""
    from tqdm import tqdm  # lm-evaluation-harness brings it

    log, nowhere = logging.getLogger("lm_eval"), io.StringIO()
    level, interval = log.level, tqdm.monitor_interval
    log.setLevel(logging.CRITICAL)
    tqdm.monitor_interval = 0  # it would leave a thread
    try:
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            yield
    finally:
        log.setLevel(level)
        tqdm.monitor_interval = interval


def _described(task: Any) -> str:
    config = {key: value for key, value in task.dump_config().items() if key != "metadata"}
    for practical in ("dataset_path", "dataset_kwargs"):
        config.pop(practical, None)
    return json.dumps(config, sort_keys=True, default=lambda value: getattr(value, "__name__", ""))


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
