"""A model's name or folder to a `Model`, and what is wrong with it in a line of cause and one of remedy.

Transformers loads it, always with a dtype. A model's own code is run, and pickled weights are read,
by a flag each and never after a prompt: configurations are read before anything of it is executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import constants
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging as transformers_logging

from edit_harness.errors import DataError, ResourceError, UsageError
from edit_harness.interfaces import ModelSource
from edit_harness.model.model import Model
from edit_harness.model.tokens import PLAIN
from edit_harness.registry.guard import PASSING
from edit_harness.registry.registry import Plugins, suggestion
from edit_harness.registry.settings import source_of
from edit_harness_plugins.downloads import unknown_host

from .chat import chat_frame
from .checkpoint import check_weights, digest_of, weight_files, what_was_let_in
from .placement import SIZES, placed, spread

T = TypeVar("T")
DTYPES = ("float32", "float64", "bfloat16", "float16")
SMALL = 20_000_000
"""Parameters below which one thread is faster than several, on a CPU that is not idle."""
TF32 = "tf32"
"""Weights in float32 whose products a CUDA device rounds to TF32: a setting of the whole process."""
COMPILED = re.compile(r'(\w*(?:attn|experts)_implementation\w*)": "([^"]*/[^"]*)')
"""An entry that names compiled code on the hub, as OWNER/NAME."""
LAYOUT = "name a folder in transformers' layout"
PICKLED = (
    "convert them with save_pretrained, or read pickled ones, as tensors only: "
    "--allow-pickle-weights"
)
CLASSES = {"AutoModelForCausalLM", "AutoTokenizer"}
"""What is loaded here, and may be a class of the model's own instead."""
HUB_SIGNS = {
    "valid model identifier": ("the hub has no model {}", "check the name, or give a folder"),
    "valid git identifier": ("the hub has no such revision of {}", "check --model-args revision=…"),
    "gated": ("the hub refuses {}", "accept its licence there and set HF_TOKEN"),
    "does not appear to have": ("{} lacks a file, such as weights in safetensors", PICKLED),
}
"""What a message of the hub's client says, and cause and remedy of it."""
SMALLER = "use --device-map auto, --dtype bfloat16 for a preview, or --device cpu"


def load(
    source: ModelSource,
    *,
    dtype: str = "float32",
    device: str = "auto",
    revision: str | None = None,
    device_map: str | None = None,
    max_memory: str | None = None,
    batch_rows: int | None = None,
    chat_template: bool = False,
    trust_remote_code: bool = False,
    allow_pickle_weights: bool = False,
) -> Model:
    """Load a model from a folder or, by its name, from the hub or its cache.

    ``device_map`` spreads it over devices, memory and disk, by a name of `placement.FOUND`;
    ``max_memory``, such as ``0:20GiB;cpu:60GiB``, limits its weights.
    ``trust_remote_code`` runs code that the model brings, with the user's rights; of the hub it takes
    a ``revision`` that is a whole commit hash. ``allow_pickle_weights`` reads weights that are not in
    safetensors, as tensors only. `Model.let_in` has what these two let in. Raises `DataError` for a model
    that is missing or no causal language model, `UsageError` for a dtype, a device or a map that cannot be,
    `ResourceError` if it does not fit the device.
    """
    placement, target = placed(device_map, max_memory, device), _target(dtype, device)
    path = source.path
    config = config_of(path, revision, trust_remote_code)
    options = _where(path, revision)
    weights = weight_files(path, config, allow_pickle_weights)
    tokenizer = _tokenizer(path, options, trust_remote_code)
    factory: Any = AutoModelForCausalLM
    get = partial(
        _explained,
        factory.from_pretrained,
        path,
        dtype=torch.float32 if dtype == TF32 else getattr(torch, dtype),
        trust_remote_code=trust_remote_code,
        # None takes what there is, safetensors first; weights_only makes tensors of the other.
        use_safetensors=None if allow_pickle_weights else True,
        weights_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are in the report
        **options,
    )
    try:
        module, report = spread(get, placement) if placement else get()
        module = module if placement else module.to(target)
        check_weights(module, report, path)
        let_in = what_was_let_in(path, revision, trust_remote_code, allow_pickle_weights, weights)
        small = sum(p.numel() for p in module.parameters()) < SMALL
        if target.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        frame = chat_frame(tokenizer) if chat_template else PLAIN
        how = {"batch_rows": batch_rows, "frame": frame, "let_in": let_in}
        model = Model(module, tokenizer, source=source, **how)  # type: ignore[arg-type]
    except torch.OutOfMemoryError:
        remedy = f"leave more room: {SIZES}" if placement else SMALLER
        raise ResourceError(f"{path} does not fit the memory of {target}", remedy) from None
    if known := digest_of(path, config, weights, let_in):
        model.identify(known)
    return model


def _target(dtype: str, device: str) -> torch.device:
    """Return the device, ready for a dtype. Raises `UsageError` for what is none."""
    if dtype not in (known := (*DTYPES, TF32)):
        raise UsageError(f"there is no dtype {dtype!r}", f"choose from {', '.join(known)}")
    target = _device(device)
    if dtype == TF32:
        if target.type != "cuda":
            raise UsageError(
                f"tf32 is a precision of CUDA devices, and this one is {target.type}",
                "use --dtype float32, or bfloat16 for a preview",
            )
        torch.set_float32_matmul_precision("high")
    # What matters of the chatter, such as missing weights, is an error here.
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    return target


def _device(name: str) -> torch.device:
    """Return the device: for ``auto`` an accelerator if there is one, else the CPU."""
    if name == "auto":
        best = torch.accelerator.current_accelerator(check_available=True)
        return best or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        cause = f"the device {name!r} cannot be used: {str(error).splitlines()[0]}"
        raise UsageError(cause, "try --device cpu") from None
    return device


def config_of(path: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Return a model's configuration.

    Raises `DataError` if there is none, if it is out of scope, or asks for code that nobody allowed.
    """
    if any("\udc80" <= letter <= "\udcff" for letter in path):  # as Python keeps such bytes
        raise DataError(
            f"{path} has bytes that are no text in this locale",
            "set PYTHONUTF8=1, or rename the folder in plain letters",
        )
    folder = os.path.isdir(path)
    if not folder and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise DataError(f"the model folder {path} does not exist", LAYOUT)
    # Whatever is shorter than a whole hash, or a name, may be another thing tomorrow.
    if trust_remote_code and not folder and not re.fullmatch("[0-9a-f]{40}", revision or ""):
        raise DataError(
            f"--trust-remote-code runs code of {path}, of one commit and no other: "
            f"{revision or 'no revision'} is no full hash",
            "name the commit that you have read: --model-args revision=, 40 hexadecimal digits",
        )
    where = _where(path, revision)
    entries, _ = _explained(PreTrainedConfig.get_config_dict, path, **where)
    _check_entries(entries, path, trust_remote_code)
    get = AutoConfig.from_pretrained
    config = _explained(get, path, trust_remote_code=trust_remote_code, **where)
    architectures = ", ".join(getattr(config, "architectures", None) or [])
    masked = "MaskedLM" in architectures or "ForPreTraining" in architectures
    if masked or getattr(config, "is_encoder_decoder", False):
        kind = "a masked language" if masked else "an encoder-decoder"
        raise DataError(
            f"{path} is {kind} model ({architectures})",
            "only causal language models can be edited here, such as gpt2-xl",
        )
    return config


def _where(path: str, revision: str | None) -> dict[str, Any]:
    """Return which revision is loaded, and whether the hub is left alone, since nobody knows its address."""
    hub_logging.set_verbosity_error()  # each retry is a warning
    known = os.path.isdir(path) or constants.HF_HUB_OFFLINE or not unknown_host(constants.ENDPOINT)
    where: dict[str, Any] = {"revision": revision} if revision else {}
    return where if known else {**where, "local_files_only": True}


def checked_source(
    plugins: Plugins, name: str, revision: str | None = None, trust_remote_code: bool = False
) -> ModelSource:
    """Return where a model comes from, if it exists and can be edited.

    Raises `DataError` before anything large is read or downloaded.
    """
    source = source_of(plugins, name)
    try:
        config_of(source.path, revision, trust_remote_code)
    except DataError as error:
        guess = suggestion(name, [c.name for c in plugins.of_kind("model")])
        raise DataError(error.cause + guess, error.remedy) from error
    return source


def _tokenizer(path: str, where: Mapping[str, Any], trusted: bool) -> Any:
    """Load the tokenizer; transformers makes one without a vocabulary where the files are missing."""
    _check_entries(_explained(get_tokenizer_config, path, **where), path, trusted)
    try:
        get = AutoTokenizer.from_pretrained
        tokenizer = _explained(get, path, trust_remote_code=trusted, **where)
    except DataError as error:
        cause = str(error.__cause__).splitlines()[0]
        raise DataError(
            f"the tokenizer of {path} cannot be loaded: {cause}", "save it into the same folder"
        ) from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise DataError(f"{path} has no tokenizer", "save it into the same folder")
    return tokenizer


def _check_entries(entries: Any, path: str, trusted: bool) -> None:
    """Raise `DataError` for a parsed configuration that asks for code which nobody allowed.

    What another repository has is never allowed: no revision of this one says which commit of it.
    """
    if found := COMPILED.search(json.dumps(entries, default=str)):
        raise DataError(
            f"{path} asks for compiled code from the hub: {found[2]}",
            f"take {found[1]} out of a copy's config.json",
        )
    classes = (entries.get("auto_map") if isinstance(entries, Mapping) else None) or {}
    if CLASSES.intersection(classes) and not trusted:
        raise DataError(*_needs_code(path))
    for names in classes.values() if isinstance(classes, Mapping) else [classes]:
        for name in filter(None, names if isinstance(names, list) else [names]):
            if "--" in name and not name.startswith(f"{path}--"):
                raise DataError(
                    f"{path} takes code from {name.partition('--')[0]}, another repository",
                    "no revision pins that: download both into one folder, and name the folder",
                )


def _explained(get: Callable[..., T], path: str, **options: Any) -> T:
    """Return what is loaded. Raises `DataError` with what is wrong, in one line.

    A broken configuration makes transformers raise anything, and so does a model's own code; a
    tokenizer's compiled code panics, which is no `Exception`.
    """
    try:
        return get(path, **options)
    except (torch.OutOfMemoryError, *PASSING):
        raise
    except BaseException as error:
        raise DataError(*_explain(path, error)) from error


def _needs_code(path: str) -> tuple[str, str]:
    folder = Path(path).is_dir()
    read, pinned = ("its *.py files", "") if folder else ("it", " --model-args revision=FULL-HASH")
    return (
        f"{path} needs code of its own, and --trust-remote-code would run it as you",
        f"read {read} first, and if you trust that: --trust-remote-code{pinned}",
    )


def _explain(path: str, error: BaseException) -> tuple[str, str]:
    """Return cause and remedy of a failed load."""
    text, folder = " ".join(str(error).split()), Path(path)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            return f"the folder {path} has no config.json", LAYOUT
        if isinstance(error, SafetensorError):
            return f"the weights in {path} are damaged: {text[:160]}", "copy or download them again"
        if "no file named" in text:
            return f"the folder {path} has no weights in safetensors", PICKLED
        return (
            f"{path} is no causal language model that can be loaded: {text[:160]}",
            "check that the folder is complete, in the layout of transformers",
        )
    if constants.HF_HUB_OFFLINE:
        return f"{path} is not in the cache and HF_HUB_OFFLINE=1", "unset it, or name a folder"
    for sign, (cause, remedy) in HUB_SIGNS.items():
        if sign in text:
            return cause.format(path), remedy
    if not isinstance(error, OSError):
        return f"{path} cannot be loaded: {text[:160]}", "see where it fails with --debug"
    return (
        f"{path} is neither a folder nor in the cache, and the hub cannot be reached",
        "check the network, or give a folder in place of the name",
    )
