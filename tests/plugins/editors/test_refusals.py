"""What each bundled editor can't edit: refused before anything is prepared, with a way out."""

import pytest
import torch

from edit_harness import PluginError
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, shape_of
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors import EDITORS

FREE = {"none", "prompt", "ike", "lora"}
"""They write into no MLP."""
SPREADING = {"memit", "emmet", "pmet", "alphaedit"}
"""They add up what several layers put out."""


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def refusal(name, family):
    """Return the error that an editor meets a tiny model of a family with, or None."""
    model = tiny_model(family)
    made = Plugins.installed().find("editor", name).load()()
    editor = configure(made, shape_of(model.module.config), name).editor
    try:
        editor.check(model)
    except PluginError as error:
        return error
    return None


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe"])
@pytest.mark.parametrize("name", EDITORS)
def test_a_mixture_of_experts_has_no_mlp_to_write_into(name, family):
    error = refusal(name, family)
    assert (error is None) == (name in FREE)
    if error:
        assert "was found in block" in error.cause
        assert "choose an editor that needs none" in error.remedy


@pytest.mark.parametrize("family", ["gemma2", "olmo2"])
@pytest.mark.parametrize("name", EDITORS)
def test_a_norm_behind_the_mlp_is_none_of_the_spreading_editors(name, family):
    error = refusal(name, family)
    assert (error is not None) == (name in SPREADING)
    if error:
        assert "normalises it before it reaches the residual stream" in error.cause
        assert "such as rome" in error.remedy


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "gptj", "opt", "bloom", "falcon"])
@pytest.mark.parametrize("name", EDITORS)
def test_ordinary_models_are_taken(name, family):
    assert refusal(name, family) is None
