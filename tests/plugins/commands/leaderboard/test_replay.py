"""Replays: which settings of a bundle a plugin is given, and how far answers are apart."""

import json
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Literal

import pytest

from edit_harness import Preset
from edit_harness.files import dumps
from edit_harness.folder.encoding import decode_answer
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.leaderboard.replay import distance, strange


@dataclass
class Editor:
    """Has a field of every kind."""

    presets: ClassVar[Any] = {"gpt2": Preset({"module": "mlp.{}", "layers": (1, 2)}, "a paper")}

    steps: int = 5
    rate: float | None = None
    plain: bool = False
    layers: tuple[int, ...] = ()
    mode: Literal["cold", "warm"] = "cold"
    network: str = ""
    module: str = "attn.{}"
    more: dict[str, Any] = field(default_factory=dict)


def test_numbers_and_what_the_plugin_brings_are_given():
    for settings in (
        {"steps": 7, "rate": 0.5, "plain": True, "layers": [3, 4]},
        {"rate": None, "mode": "warm", "network": "", "module": "mlp.{}"},
        {"module": "attn.{}", "layers": [1, 2], "more": {}},
    ):
        assert strange(Editor, settings) == ""
    # Bundled editors take their own settings.
    for component in Plugins.installed().of_kind("editor"):
        factory = component.load()
        usual = fields.defaults(factory)
        for preset in factory.presets.values():
            told = json.loads(dumps({**usual, **preset.values}))
            assert strange(factory, told) == "", component.name
        assert strange(factory, json.loads(dumps(usual))) == "", component.name


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"network": "/etc/passwd"}, "its network is /etc/passwd, which is none of its own values"),
        ({"network": 3}, "its network is 3"),
        ({"mode": "/tmp/fifo"}, "its mode is /tmp/fifo"),
        ({"layers": ["/tmp"]}, "its layers is"),
        ({"steps": "/tmp"}, "its steps is"),
        ({"more": {"path": "/tmp"}}, "its more is"),
        ({"speed": 1}, "it has no field speed"),
    ],
)
def test_what_may_lead_somewhere_is_not(settings, why):
    assert why in strange(Editor, settings)


def scores(logprobs, argmax, tokens=((1, 2), (3,))):
    return {"tokens": tokens, "logprobs": logprobs, "argmax": argmax}


def text(said, **verdict):
    judged = {"verdict": {"status": "decided", "score": 1.0, **verdict}} if verdict else {}
    return {"text": said, **judged}


MEASURED = scores([[-1.0, -2.0], [-1.0005]], [[1, 9], [1]])


def apart(claimed, again, judged=True):
    return distance(decode_answer(claimed), decode_answer(again), judged=judged)


@pytest.mark.parametrize(
    ("claimed", "again", "off"),
    [
        ([0.5, 0.25, 9], [0.5, 0.26, 9], 0.01),
        ([0.5, 0.25, 8], [0.5, 0.25, 9], inf),
        ([None, 0.25, 9], [0.5, 0.25, 9], inf),
        ([None, 0.25, 9], [None, 0.25, 9], 0.0),
        (text("a"), text("b"), inf),
        (text("a"), [0.5, 0.25, 9], inf),
        (None, None, 0.0),
        (None, text("a"), inf),
        (text("a", note="so"), text("a", note="thus"), 0.0),
        (text("a", score=1.0), text("a", score=0.0), inf),
        (text("a", reverted=True), text("a", reverted=False), inf),
        (text("a", ratings={"flow": 1.0}), text("a", ratings={"flow": 0.5}), inf),
        (text("a", note="so"), text("a"), inf),
        (MEASURED, MEASURED, 0.0),
        (scores([[-1.5, -1.5], [-1.0005]], [[1, 9], [1]]), MEASURED, 0.5),
        (scores([[-1.0, -2.0], [-1.0005]], [[1, 2], [1]]), MEASURED, inf),
        (scores([[-1.0, -2.0], [-1.0005]], [[3, 9], [3]]), MEASURED, inf),
        (scores([[-1.0, -2.0], [-1.0005]], [[8, 9], [1]]), MEASURED, inf),
        (scores([[-1.0, -2.0], [-1.0005]], [[1, 9], [1]], ((1, 5), (3,))), MEASURED, inf),
        (scores([[-1.0, -2.0], [None]], [[1, 9], [1]]), MEASURED, inf),
    ],
)
def test_how_far_answers_are_apart(claimed, again, off):
    assert apart(claimed, again) == pytest.approx(off)


def test_verdicts_of_who_is_not_asked_again_are_taken_as_claimed():
    claimed, again = text("a", score=1.0), text("a", status="pending", score=None)
    assert apart(claimed, again) == inf
    assert apart(claimed, again, judged=False) == 0.0
