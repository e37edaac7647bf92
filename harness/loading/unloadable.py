"""Why a model could not be loaded: from what transformers raises to a line of cause and one of remedy.

Nothing is loaded here, and nothing refused; what is refused by our own rules stands in
`edit_harness.loading` and `edit_harness.loading.trust`.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants
from safetensors import SafetensorError

from . import trust

HUB_SIGNS = (
    ("valid model identifier", "the hub has no model {}", "check the name, or give a folder"),
    ("valid git identifier", "the hub has no such revision of {}", "check --model-args revision=…"),
    ("gated", "the hub refuses {}", "accept its licence there and set HF_TOKEN"),
    ("401 Client Error", "the hub refuses {}", "accept its licence there and set HF_TOKEN"),
    ("403 Client Error", "the hub refuses {}", "accept its licence there and set HF_TOKEN"),
    (
        "does not appear to have",
        "{} lacks a file, such as weights in safetensors",
        trust.PICKLED,
    ),
)
"""What a message of the hub's client says, and cause and remedy of it."""


def explain(path: str, error: BaseException) -> tuple[str, str]:
    """Return cause and remedy of a failed load."""
    text = " ".join(str(error).split())
    if "custom code" in text:
        return trust.needs_code(path)
    if Path(path).is_dir():
        return _explain_folder(path, text, error)
    if constants.HF_HUB_OFFLINE:
        return f"{path} is not in the cache and HF_HUB_OFFLINE=1", "unset it, or name a folder"
    for sign, cause, remedy in HUB_SIGNS:
        if sign in text:
            return cause.format(path), remedy
    if not isinstance(error, OSError):
        return f"{path} cannot be loaded: {text[:160]}", "see where it fails with --debug"
    return (
        f"{path} is neither a folder nor in the cache, and the hub cannot be reached",
        "check the network, or give a folder: --model ./my-model",
    )


def _explain_folder(path: str, text: str, error: BaseException) -> tuple[str, str]:
    if not (Path(path) / "config.json").exists():
        return f"the folder {path} has no config.json", "name a folder in transformers' layout"
    if isinstance(error, SafetensorError):
        return f"the weights in {path} are damaged: {text[:160]}", "copy or download them again"
    if "safetensors" in text:
        return (
            f"the folder {path} has no weights in safetensors",
            trust.PICKLED,
        )
    return (
        f"{path} is no causal language model that can be loaded: {text[:160]}",
        "check that the folder is complete, in the layout of transformers",
    )
