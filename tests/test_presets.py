"""Families by shape, and the fields that an editor takes from its preset."""

from dataclasses import dataclass
from typing import ClassVar, get_args

import pytest
from transformers import (
    Gemma3Config,
    GPT2Config,
    GPTJConfig,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)

from edit_harness import FROM_PRESET, Editor, ModelShape, Preset, UsageError
from edit_harness.interfaces import Origin
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, settings, shape_of

LLAMA = {"num_hidden_layers": 32, "hidden_size": 4096}
QWEN = {"num_hidden_layers": 28, "hidden_size": 3584, "vocab_size": 152064}


@pytest.mark.parametrize(
    ("config", "family"),
    [
        (GPT2Config(n_layer=12, n_embd=768), "gpt2"),
        (GPT2Config(n_layer=24, n_embd=1024), "gpt2-medium"),
        (GPT2Config(n_layer=36, n_embd=1280), "gpt2-large"),
        (GPT2Config(n_layer=48, n_embd=1600), "gpt2-xl"),
        (GPT2Config(n_layer=48, n_embd=1600, vocab_size=50300), "gpt2-xl"),
        (GPTJConfig(), "gpt-j-6b"),
        (GPTNeoXConfig(num_hidden_layers=44, hidden_size=6144), "gpt-neox-20b"),
        (LlamaConfig(**LLAMA, vocab_size=32000), "llama-2-7b"),
        (LlamaConfig(**LLAMA, vocab_size=128256), "llama-3-8b"),
        (MistralConfig(**LLAMA, vocab_size=32768), "mistral-7b"),
        (MistralConfig(**LLAMA, vocab_size=32000), "mistral-7b"),
        (Qwen2Config(**QWEN), "qwen2.5-7b"),
        (GPT2Config(n_layer=2, n_embd=32), ""),
        (LlamaConfig(**LLAMA, vocab_size=50000), ""),
        (LlamaConfig(n_layer=48, num_hidden_layers=48, hidden_size=1600), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_family_is_recognised_by_its_shape(config, family):
    config._name_or_path = "somebody/gpt2-medium-or-so"
    assert shape_of(config).family == family


def test_a_shape_has_the_numbers_of_the_language_model():
    assert shape_of(GPT2Config(n_layer=3, n_embd=64)) == ModelShape("", "gpt2", 3, 64)
    multimodal = Gemma3Config(text_config={"num_hidden_layers": 5, "hidden_size": 48})
    assert (shape_of(multimodal).layers, shape_of(multimodal).hidden) == (5, 48)


def test_the_family_can_be_given():
    assert shape_of(GPT2Config(), "pocket").family == "pocket"


@dataclass
class Tuner(Editor):
    """An editor with a preset for one family."""

    layer: int = FROM_PRESET
    rate: float = FROM_PRESET
    steps: int = 3

    presets: ClassVar = {"known": Preset({"layer": 7, "rate": 0.5, "steps": 99}, "a paper")}

    def edit(self, model, requests):
        raise NotImplementedError


@dataclass
class Guesser(Tuner):
    def guess(self, shape):
        return Preset({"layer": shape.layers // 2, "rate": 1.0}, "half the depth", "guessed")


@dataclass
class HalfGuesser(Tuner):
    def guess(self, shape):
        return Preset({"layer": shape.layers // 2}, "half the depth", "guessed")


KNOWN = ModelShape("known", "gpt2", 12, 768)
UNKNOWN = ModelShape("", "gpt2", 12, 768)


def test_a_preset_fills_what_was_not_given():
    configured = configure(Tuner(rate=0.1), KNOWN, "tuner")
    assert configured.editor == Tuner(layer=7, rate=0.1, steps=3)
    assert configured.source == "ported (a paper) but for rate"


def test_nothing_is_taken_from_a_preset_that_is_not_needed():
    given = Tuner(layer=0, rate=0.0)
    assert configure(given, KNOWN, "tuner").editor is given
    assert configure(given, UNKNOWN, "tuner").source == ""


def test_a_guess_is_taken_for_unknown_families_only_and_says_so():
    configured = configure(Guesser(), UNKNOWN, "guesser")
    assert configured.editor == Guesser(layer=6, rate=1.0)
    assert configured.source == "guessed (half the depth)"
    assert configure(Guesser(), KNOWN, "guesser").source == "ported (a paper)"


def test_without_preset_and_guess_the_error_names_the_fields():
    with pytest.raises(UsageError) as caught:
        configure(Tuner(), UNKNOWN, "tuner")
    assert caught.value.cause == (
        "editor tuner has no preset of layer, rate for this model (gpt2, 12 layers of width 768)"
    )
    assert caught.value.remedy == "give them: --editor-args layer=...,rate=..."
    with pytest.raises(UsageError) as caught:
        configure(HalfGuesser(), UNKNOWN, "half")
    assert caught.value.remedy == "give them: --editor-args rate=..."
    assert configure(HalfGuesser(rate=2.0), UNKNOWN, "half").editor == HalfGuesser(6, 2.0)


def test_settings_are_the_fields():
    assert settings(Tuner(layer=1)) == {"layer": 1, "rate": None, "steps": 3}


EDITORS = [
    c.name for c in Plugins.installed().of_kind("editor") if c.distribution == "edit-harness"
]
SHAPES = [
    ModelShape("gpt2-medium", "gpt2", 24, 1024),
    ModelShape("gpt2-xl", "gpt2", 48, 1600),
    ModelShape("gpt-j-6b", "gptj", 28, 4096),
    ModelShape("llama-2-7b", "llama", 32, 4096),
    ModelShape("llama-3-8b", "llama", 32, 4096),
    ModelShape("mistral-7b", "mistral", 32, 4096),
    ModelShape("qwen2.5-7b", "qwen2", 28, 3584),
    ModelShape("", "gpt2", 4, 64),
    ModelShape("", "llama", 80, 8192),
]


@pytest.mark.parametrize("name", EDITORS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.family or f"{s.type}-{s.layers}")
def test_every_bundled_editor_has_its_fields_for_every_model(name, shape):
    editor = Plugins.installed().find("editor", name).load()()
    configured = configure(editor, shape, name)
    filled = settings(configured.editor)
    # Where None means something, it is a default of the field and not what a preset owes.
    assert all(filled[k] is not None for k, v in settings(editor).items() if v is FROM_PRESET)
    assert 0 <= filled.get("layer", 0) < shape.layers
    assert all(0 <= layer < shape.layers for layer in filled.get("layers") or ())


def test_a_preset_gives_fields_that_the_editor_has():
    for name in EDITORS:
        factory = Plugins.installed().find("editor", name).load()
        for family, preset in factory.presets.items():
            assert preset.values.keys() <= settings(factory()).keys(), (name, family)
            assert preset.source
            assert preset.origin in get_args(Origin)
            assert str(preset) == f"{preset.origin} ({preset.source})"


@pytest.mark.parametrize("name", EDITORS)
def test_what_nobody_published_is_called_a_guess(name):
    editor = Plugins.installed().find("editor", name).load()()
    configured = configure(editor, ModelShape("", "gpt2", 4, 64), name)
    assert configured.source.startswith("guessed") or not any(
        value is FROM_PRESET for value in settings(editor).values()
    )


def test_what_was_given_against_the_preset_is_said():
    configured = configure(Tuner(layer=3), KNOWN, "tuner")
    assert configured.source == "ported (a paper) but for layer"
    same = configure(Tuner(layer=7), KNOWN, "tuner")
    assert same.source == "ported (a paper)"
