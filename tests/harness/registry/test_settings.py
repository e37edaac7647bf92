"""Fields, presets and what objects of plugins are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

import pytest
import transformers as hf

from edit_harness import FROM_PRESET, Editor, ModelShape, Preset, UsageError
from edit_harness.interfaces import Origin
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import (
    Bounds,
    Count,
    Natural,
    NotNegative,
    Positive,
    build,
    check,
    configure,
    convert,
    defaults,
    field_types,
    parse,
    settings,
    shape_of,
)


class Base:
    kinds: ClassVar[Sequence[str]] = ()


@dataclass
class Settings(Base):
    kept: ClassVar[int] = 1
    lr: float = 0.5
    layers: tuple[int, ...] = (3, 4)
    steps: int | None = None
    loss: Literal["nll", "kl"] = "nll"
    verbose: bool = False
    name: str = ""
    names: list = field(default_factory=lambda: ["a"])
    hidden: int = field(default=0, init=False)


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (["layer=5,lr=0.5"], {"layer": "5", "lr": "0.5"}),
        (["layer=5", "lr=0.5"], {"layer": "5", "lr": "0.5"}),
        (["path=/a=b,c"], {"path": "/a=b,c"}),
        ([], {}),
    ],
)
def test_texts_are_split_into_settings(texts, settings):
    assert parse(texts) == settings


def test_a_text_without_a_key():
    with pytest.raises(UsageError, match="is not of the form KEY=VALUE"):
        parse(["4,layer=5"])


def test_values_get_the_types_of_the_fields():
    texts = {"lr": "1e-3", "layers": "5,6", "steps": "7", "loss": "kl", "verbose": "true"}
    built = build(Settings, texts | {"name": "0"}, "editor 'x'")
    assert built == Settings(0.001, (5, 6), 7, "kl", True, "0")
    objects = build(Settings, {"layers": (1,), "steps": None}, "editor 'x'")
    assert (objects.layers, objects.steps) == ((1,), None)
    fields = ["lr", "layers", "steps", "loss", "verbose", "name", "names"]
    assert list(defaults(Settings)) == list(field_types(Settings)) == fields
    assert defaults(Settings)["names"] == ["a"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("False", bool, False),
        ("1", bool, True),
        ("4, 5,", tuple[int, ...], (4, 5)),
        ("", tuple[int, ...], ()),
        ("1,2", tuple[float, ...] | None, (1.0, 2.0)),
        ("a,b", str, "a,b"),
    ],
)
def test_what_a_text_means(text, kind, value):
    assert convert(text, kind) == value


@dataclass
class Bounded:
    """A plugin with bounds."""

    steps: Count = FROM_PRESET
    layer: Natural = 0
    rate: Positive = 1.0
    decay: NotNegative = 0.0
    share: Annotated[float, Bounds(0, below=1)] = 0.5


@pytest.mark.parametrize(
    ("kind", "setting", "cause"),
    [
        (Settings, {"lr": "fast"}, "lr='fast' is not float"),
        (Settings, {"steps": "1.5"}, "steps='1.5' is not int | null"),
        (Settings, {"layers": "1,two"}, "layers='1,two' is not int"),
        (Settings, {"loss": "mse"}, "loss='mse' is not one of nll, kl"),
        (Bounded, {"steps": "0"}, "steps=0 is not int >= 1"),
        (Bounded, {"share": "1"}, "share=1.0 is not float < 1.0"),
    ],
)
def test_a_value_of_the_wrong_type_or_out_of_bounds(kind, setting, cause):
    with pytest.raises(UsageError) as caught:
        build(kind, setting, "editor 'x'")
    assert caught.value.cause == f"editor 'x': field {cause}"


def test_bounds_hold_for_what_is_given_as_an_object_too():
    check(Bounded(steps=1, rate=1e-9, share=0), "x")
    check(object(), "x")
    for bad in (Bounded(steps=0), Bounded(rate=float("nan")), Bounded(decay=float("nan"))):
        with pytest.raises(UsageError):
            check(bad, "x")


def test_a_setting_that_is_refused_on_purpose_says_what_to_do_instead_and_not_what_was_given():
    @dataclass
    class Locked:
        bolt: int = 1
        instead: ClassVar[dict[str, str]] = {"lock": "keys are in the drawer"}

    with pytest.raises(UsageError) as caught:
        build(Locked, {"lock": "4711"}, "judge 'x'")
    assert str(caught.value) == "judge 'x' has no field 'lock'\nkeys are in the drawer"


LLAMA = {"num_hidden_layers": 32, "hidden_size": 4096}
QWEN = {"num_hidden_layers": 28, "hidden_size": 3584, "vocab_size": 152064}


@pytest.mark.parametrize(
    ("config", "family"),
    [
        (hf.GPT2Config(n_layer=12, n_embd=768), "gpt2"),
        (hf.GPT2Config(n_layer=48, n_embd=1600), "gpt2-xl"),
        (hf.GPTJConfig(), "gpt-j-6b"),
        (hf.GPTNeoXConfig(num_hidden_layers=44, hidden_size=6144), "gpt-neox-20b"),
        (hf.LlamaConfig(**LLAMA, vocab_size=32000), "llama-2-7b"),
        (hf.LlamaConfig(**LLAMA, vocab_size=128256), "llama-3-8b"),
        (hf.MistralConfig(**LLAMA, vocab_size=32768), "mistral-7b"),
        (hf.Qwen2Config(**QWEN), "qwen2.5-7b"),
        (hf.GPT2Config(n_layer=2, n_embd=32), ""),
        (hf.LlamaConfig(**LLAMA, vocab_size=50000), ""),
        (hf.LlamaConfig(n_layer=48, num_hidden_layers=48, hidden_size=1600), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_family_is_recognised_by_its_shape(config, family):
    config._name_or_path = "somebody/gpt2-medium-or-so"
    assert shape_of(config).family == family


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


@pytest.mark.parametrize(
    ("given", "shape", "made", "source"),
    [
        (Tuner(rate=0.1), KNOWN, Tuner(layer=7, rate=0.1, steps=3), "ported (a paper) but for rate"),
        (Tuner(layer=3), KNOWN, Tuner(layer=3, rate=0.5), "ported (a paper) but for layer"),
        (Tuner(layer=7), KNOWN, Tuner(layer=7, rate=0.5), "ported (a paper)"),
        (Tuner(layer=0, rate=0.0), UNKNOWN, Tuner(layer=0, rate=0.0), ""),
        (Guesser(), UNKNOWN, Guesser(layer=6, rate=1.0), "guessed (half the depth)"),
        (Guesser(), KNOWN, Guesser(layer=7, rate=0.5), "ported (a paper)"),
    ],
)  # fmt: skip
def test_a_preset_or_else_a_guess_fills_what_was_not_given(given, shape, made, source):
    configured = configure(given, shape, "tuner")
    assert (configured.editor, configured.source) == (made, source)


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


EDITORS = [
    c.name for c in Plugins.installed().of_kind("editor") if c.distribution == "edit-harness"
]
SHAPES = [
    ModelShape("gpt2-xl", "gpt2", 48, 1600),
    ModelShape("gpt-j-6b", "gptj", 28, 4096),
    ModelShape("llama-2-7b", "llama", 32, 4096),
    ModelShape("qwen2.5-7b", "qwen2", 28, 3584),
    ModelShape("", "gpt2", 4, 64),
    ModelShape("", "llama", 80, 8192),
]


@pytest.mark.parametrize("name", EDITORS)
def test_every_bundled_editor_has_its_fields_for_every_model(name):
    """Of what nobody published it is said that it is a guess."""
    kind = Plugins.installed().find("editor", name).load()
    editor = kind()
    wanted = [k for k, v in settings(editor).items() if v is FROM_PRESET]
    for shape in SHAPES:
        configured = configure(editor, shape, name)
        filled = settings(configured.editor)
        # Where None means something, it is a default of the field and not what a preset owes.
        assert all(filled[k] is not None for k in wanted)
        assert 0 <= filled.get("layer", 0) < shape.layers
        assert all(0 <= layer < shape.layers for layer in filled.get("layers") or ())
    small = configure(editor, ModelShape("", "gpt2", 4, 64), name)
    assert small.source.startswith("guessed") or not wanted
    for preset in kind.presets.values():
        assert preset.values.keys() <= settings(editor).keys()
        assert preset.source
        assert preset.origin in get_args(Origin)
        assert str(preset) == f"{preset.origin} ({preset.source})"
