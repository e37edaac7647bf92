"""Which settings of a bundle a plugin is given: nothing that leads anywhere."""

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from edit_harness import Preset
from edit_harness.encoding import dumps
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.leaderboard.stated import given, strange


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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"steps": 7, "rate": 0.5, "plain": True, "layers": [3, 4]},
        {"rate": None, "mode": "warm", "network": "", "module": "mlp.{}"},
        {"module": "attn.{}", "layers": [1, 2], "more": {}},
    ],
)
def test_numbers_and_what_the_plugin_brings_are_given(settings):
    assert strange(Editor, settings) == ""
    assert Editor(**given(settings))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"network": "/etc/passwd"}, "its network is /etc/passwd, which is none of its own values"),
        ({"network": 3}, "its network is 3"),
        ({"network": True}, "its network is True"),
        ({"mode": "/tmp/fifo"}, "its mode is /tmp/fifo"),
        ({"layers": ["/tmp"]}, "its layers is"),
        ({"layers": [[1]]}, "its layers is"),
        ({"steps": "/tmp"}, "its steps is"),
        ({"more": {"path": "/tmp"}}, "its more is"),
        ({"speed": 1}, "it has no field speed"),
    ],
)
def test_what_may_lead_somewhere_is_not(settings, why):
    assert why in strange(Editor, settings)


def test_bundled_editors_take_their_own_settings():
    for component in Plugins.installed().of_kind("editor"):
        factory = component.load()
        usual = fields.defaults(factory)
        for preset in factory.presets.values():
            told = json.loads(dumps({**usual, **preset.values}))
            assert strange(factory, told) == "", component.name
        assert strange(factory, json.loads(dumps(usual))) == "", component.name
