"""A model's name or folder to a `Model`: what is refused, and what each refusal says.

Loads with transformers, always with a dtype. A model's own code is run and pickled weights are read
only if that is asked for, each by an argument of its own; what it takes to be asked stands in
`edit_harness.loading.trust`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging as transformers_logging

from ..errors import DataError, ResourceError, UsageError
from ..files import sha256_of
from ..interfaces import ModelSource
from ..model.model import Model
from ..model.offloading import value
from ..registry.guard import PASSING
from . import placing, trust
from .placing import Place, Placement
from .unloadable import explain

T = TypeVar("T")
DTYPES = ("float32", "float64", "bfloat16", "float16")
TF32 = "tf32"
"""Weights in float32 whose products a CUDA device rounds to TF32: a setting of the whole process."""
SMALL = 20_000_000
"""Parameters below which one thread is faster than several, on a CPU that is not idle."""


def load(
    source: ModelSource,
    *,
    dtype: str = "float32",
    device: str = "auto",
    revision: str | None = None,
    device_map: str | Mapping[str, Place] | None = None,
    max_memory: str | None = None,
    batch_rows: int | None = None,
    chat_template: bool = False,
    trust_remote_code: bool = False,
    allow_pickle_weights: bool = False,
) -> Model:
    """Load a model from a folder or, by its name, from the hub or its cache.

    ``device_map`` spreads it over devices, memory and disk, by a name of `placing.FOUND`, a JSON file
    or a map from modules to places; ``max_memory``, such as ``0:20GiB;cpu:60GiB``, limits its weights.
    ``trust_remote_code`` runs code that the model brings, with the user's rights; of the hub it takes
    a ``revision`` that is a whole commit hash. ``allow_pickle_weights`` reads weights that are not in
    safetensors, as tensors only. What was let in so stands in `Model.let_in`.

    Raises `DataError` if it is missing, out of reach or no causal language model, `UsageError`
    for a dtype, a device or a map that cannot be, `ResourceError` if it does not fit the device.
    """
    if dtype not in (*DTYPES, TF32):
        raise UsageError(
            f"there is no dtype {dtype!r}", f"choose from {', '.join((*DTYPES, TF32))}"
        )
    placement = placing.placement(device_map, max_memory, device)
    target = pick_device(device)
    if dtype == TF32:
        allow_tf32(target)
        dtype = "float32"
    # What matters of its chatter, such as missing weights, is an error here.
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    config = config_of(source.path, revision, trust_remote_code)
    options: dict[str, Any] = {"revision": revision} if revision else {}
    options["trust_remote_code"] = trust_remote_code
    tokenizer = _tokenizer(source.path, options)
    if placement:
        placing.check(placement, _bare(config, source.path, trust_remote_code))
    weights = trust.weight_files(source.path, config, allow_pickle_weights)
    given = _Given(source.path, getattr(torch, dtype), options, allow_pickle_weights)
    try:
        module, report = given.spread(placement) if placement else given.on(target)
        trust.check_module(module, source.path)
        check_report(report, source.path, module.state_dict())
        check_tied(module, source.path)
        small = sum(p.numel() for p in module.parameters()) < SMALL
        if target.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        model = Model(
            module,
            tokenizer,
            source=source,
            batch_rows=batch_rows,
            chat_template=chat_template,
            let_in=trust.let_in(
                source.path, revision, trust_remote_code, allow_pickle_weights, weights
            ),
        )
    except torch.OutOfMemoryError:
        raise ResourceError(
            f"{source.path} does not fit the memory of {target}",
            f"leave more room: {placing.SIZES}"
            if placement
            else "use --device-map auto, --dtype bfloat16 for a preview, or --device cpu",
        ) from None
    if known := digest_of(source.path, config, weights, model.let_in):
        model.identify(known)
    return model


def allow_tf32(device: torch.device) -> None:
    """Let products of float32 matrices be rounded. Raises `UsageError` where they cannot be."""
    if device.type != "cuda":
        raise UsageError(
            f"tf32 is a precision of CUDA devices, and this one is {device.type}",
            "use --dtype float32, or bfloat16 for a preview",
        )
    torch.set_float32_matmul_precision("high")


def pick_device(name: str) -> torch.device:
    """Return the device: for ``auto`` an accelerator if there is one, else the CPU."""
    if name == "auto":
        best = torch.accelerator.current_accelerator(check_available=True)
        return best or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0]
        raise UsageError(
            f"the device {name!r} cannot be used: {cause}", "try --device cpu"
        ) from None
    return device


def refuse(config: Any, path: str) -> None:
    """Raise `DataError` for a model of a kind that is out of scope."""
    architectures = ", ".join(getattr(config, "architectures", None) or [])
    if getattr(config, "is_encoder_decoder", False):
        raise DataError(
            f"{path} is an encoder-decoder model ({architectures})",
            "only causal language models can be edited here, such as gpt2-xl",
        )
    if "MaskedLM" in architectures or "ForPreTraining" in architectures:
        raise DataError(
            f"{path} is a masked language model ({architectures})",
            "only causal language models can be edited here, such as gpt2-xl",
        )


def check_report(report: Mapping[str, Any], path: str, loaded: Iterable[str]) -> None:
    """Raise `DataError` if weights were missing, so that they would be random, or left over.

    Left over are weights like those ``loaded`` but for a number: a layer that was not built.
    """
    missing = sorted(report.get("missing_keys") or ())
    wrong = sorted(str(k[0] if isinstance(k, tuple) else k) for k in report["mismatched_keys"])
    if missing or wrong:
        names = ", ".join((missing + wrong)[:3])
        raise DataError(
            f"{path} lacks {len(missing) + len(wrong)} weights of a causal language model: {names}",
            "check that the folder holds the whole model and its language-model head",
        )
    kinds = {re.sub(r"\d+", "0", name) for name in loaded}
    extra = sorted(n for n in report["unexpected_keys"] if re.sub(r"\d+", "0", n) in kinds)
    if extra:
        raise DataError(
            f"{path} has {len(extra)} weights of layers that its config.json lacks: {extra[0]}",
            "check that the weights and config.json belong together",
        )


def check_tied(module: Any, path: str) -> None:
    """Raise `DataError` if a head that is said to be the embedding itself has weights of its own."""
    head, embedding = module.get_output_embeddings(), module.get_input_embeddings()
    if head is None or not module.config.get_text_config().tie_word_embeddings:
        return
    if head.weight is embedding.weight:
        return
    one, other = (value(part, "weight").cpu() for part in (head, embedding))
    if not torch.equal(one, other):
        raise DataError(
            f"{path} has weights of a head, which its config.json ties to the embedding",
            "check that they belong together; a head of its own has tie_word_embeddings false",
        )


def digest_of(
    path: str, config: Any, weights: Sequence[Path] = (), let_in: Mapping[str, str] | None = None
) -> str:
    """Return a SHA-256 of what identifies the weights: the hub's commit, or the files they are in.

    It does not depend on the dtype that they are loaded in; empty if it cannot be told. Code of the
    model and pickled weights, where ``let_in`` has them, are part of it.
    """
    commit = getattr(config, "_commit_hash", None)
    if commit and not weights:  # a folder may say what it likes
        return hashlib.sha256(f"{path}@{commit}".encode()).hexdigest()
    digests = "".join(sha256_of(file) for file in weights)
    digests += "".join((let_in or {}).values())
    return hashlib.sha256(digests.encode()).hexdigest() if digests else ""


def config_of(path: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Return a model's configuration.

    Raises `DataError` if there is none, if it is out of scope, or asks for code that nobody allowed.
    """
    if any("\udc80" <= letter <= "\udcff" for letter in path):  # as Python keeps such bytes
        raise DataError(
            f"{path} has bytes that are no text in this locale",
            "set PYTHONUTF8=1, or rename the folder in plain letters",
        )
    if looks_local(path) and not Path(path).is_dir():
        raise DataError(
            f"the model folder {path} does not exist", "name a folder in transformers' layout"
        )
    where: dict[str, Any] = {"revision": revision} if revision else {}
    if trust_remote_code and not os.path.isdir(path):
        trust.check_revision(path, revision)
    entries = _told(lambda: PreTrainedConfig.get_config_dict(path, **where)[0], path)
    trust.check_entries(entries, path, trust_remote_code)
    config = _from_hub(AutoConfig, path, trust_remote_code=trust_remote_code, **where)
    refuse(config, path)
    return config


def looks_local(path: str) -> bool:
    """Tell a folder from a hub's name, which has at most one slash and no leading dot."""
    return path.startswith((".", "/", "~")) or path.count("/") > 1 or os.path.isdir(path)


@dataclass(frozen=True)
class _Given:
    """What transformers loads a model by; what it loads comes with a report of what was missing."""

    path: str
    dtype: torch.dtype
    options: Mapping[str, Any]
    pickled: bool

    def on(self, device: torch.device) -> tuple[Any, dict[str, Any]]:
        """Load it to a device."""
        module, report = self._load()
        return module.to(device), report

    def spread(self, placement: Placement) -> tuple[Any, dict[str, Any]]:
        """Load it to several places."""
        with placement.options() as (where, loaded):
            module, report = self._load(**where)
            loaded(module)
        return module, report

    def _load(self, **where: Any) -> tuple[Any, dict[str, Any]]:
        return _from_hub(
            AutoModelForCausalLM,
            self.path,
            dtype=self.dtype,
            # None takes what there is, safetensors first; weights_only makes tensors of the other.
            use_safetensors=None if self.pickled else True,
            weights_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the report
            **self.options,
            **where,
        )


def _bare(config: Any, path: str, code: bool) -> Any:
    """Return a model without weights."""
    with torch.device("meta"):
        make = partial(AutoModelForCausalLM.from_config, config, trust_remote_code=code)
        return _told(make, path)


def _tokenizer(path: str, options: Mapping[str, Any]) -> Any:
    """Load the tokenizer; transformers makes one without a vocabulary where the files are missing."""
    where = {key: value for key, value in options.items() if key == "revision"}
    entries = _told(lambda: get_tokenizer_config(path, **where), path)
    trust.check_entries(entries, path, options["trust_remote_code"])
    try:
        tokenizer = _from_hub(AutoTokenizer, path, **options)
    except DataError as error:
        cause = str(error.__cause__).splitlines()[0]
        raise DataError(
            f"the tokenizer of {path} cannot be loaded: {cause}", "save it into the same folder"
        ) from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise DataError(f"{path} has no tokenizer", "save it into the same folder")
    return tokenizer


def _from_hub(factory: Any, path: str, **options: Any) -> Any:
    """Call ``from_pretrained``, and say in one line what went wrong."""
    return _told(lambda: factory.from_pretrained(path, **options), path)


def _told(load: Callable[[], T], path: str) -> T:
    """Return what is loaded. Raises `DataError` with what is wrong, in one line.

    A broken configuration makes transformers raise anything, and so does a model's own code; a
    tokenizer's compiled code panics, which is no `Exception`.
    """
    try:
        return load()
    except (torch.OutOfMemoryError, *PASSING):
        raise
    except BaseException as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        raise DataError(*explain(path, error)) from error


def interrupted(error: BaseException | None) -> bool:
    """Tell whether Ctrl-C is what an error goes back to; lazy imports turn it into another."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
