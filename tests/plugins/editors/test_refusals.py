"""What each bundled editor can't edit: refused before anything is prepared, with a way out."""

import pytest

from edit_harness import PluginError, UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, shape_of
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors import EDITORS
from edit_harness_plugins.editors.tuning.lora import Lora

WRITES_NO_MLP = {"none", "prompt", "ike", "lora"}
SPREADING = {"memit", "emmet", "pmet", "alphaedit"}
"""They add up what several layers put out."""


def refused_by(family):
    """Return the error that each editor meets a tiny model of a family with."""
    model, errors = tiny_model(family), {}
    for name in EDITORS:
        made = Plugins.installed().find("editor", name).load()()
        editor = configure(made, shape_of(model.module.config), name).editor
        try:
            editor.check(model)
        except PluginError as error:
            errors[name] = error
    return errors


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe"])
def test_a_mixture_of_experts_has_no_mlp_to_write_into(family):
    errors = refused_by(family)
    assert errors.keys() == EDITORS.keys() - WRITES_NO_MLP
    for error in errors.values():
        assert "was found in block" in error.cause
        assert "choose an editor that needs none" in error.remedy


@pytest.mark.parametrize("family", ["gemma2", "olmo2"])
def test_a_norm_behind_the_mlp_is_none_of_the_spreading_editors(family):
    errors = refused_by(family)
    assert errors.keys() == SPREADING
    for error in errors.values():
        assert "normalises it before it reaches the residual stream" in error.cause
        assert "such as rome" in error.remedy


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "gptj", "opt", "bloom", "falcon"])
def test_ordinary_models_are_taken(family):
    assert refused_by(family) == {}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("ft", "steps"),
        ("lora", "steps"),
        ("grace", "steps"),
        ("memit", "steps"),
        *(("mend", f) for f in ("blocks", "every", "accumulate", "rank", "validate_on")),
    ],
)
def test_what_is_counted_from_one_is_not_none(name, field, model):
    made = Plugins.installed().find("editor", name).load()(**{field: 0})
    with pytest.raises(UsageError, match=f"{field}=0 is not int >= 1"):
        configure(made, shape_of(model.module.config), name)


def test_dropout_of_everything_is_refused(model):
    with pytest.raises(UsageError, match=r"dropout=1\.0 is not float < 1"):
        configure(Lora(dropout=1.0), shape_of(model.module.config), "lora")
