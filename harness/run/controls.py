"""Controls: what edited models are asked to see whether an edit broke what it is not about.

Every batch and sequence is asked one, by a hook. Users ask for others by name, such as ``lm_eval:TASK``;
`edit_harness_plugins.controls.effects` computes their measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..data import Case, Examined, Probe, Query
from ..errors import UsageError
from ..interfaces import Control
from ..registry.guard import blamed, named
from ..registry.registry import Component, Plugins
from ..registry.settings import Named, build_component, field_types

if TYPE_CHECKING:
    from ..model.model import Model

PREFIX = "control:"
"""Begins the ids of all controls."""
ROLE = "control"
"""The role of their probes."""
ID = f"{PREFIX}text"
"""The id of the case that every batch and sequence is asked: see the hook ``edit_harness_watch``."""


def case(name: str, *queries: Query) -> Case:
    """Return the case of a control, by its id, that asks something."""
    return Case(name, (), tuple(Probe(ROLE, query) for query in queries))


def case_of(model: Model, named: Named) -> Case:
    """Return the case of a control: queries, or its own code."""
    asked = named.value.query(model)
    if asked is not None:
        return case(PREFIX + named.name, *(asked if isinstance(asked, Sequence) else [asked]))
    return Examined(PREFIX + named.name, (), (), control=named.value)


def is_control(case: str) -> bool:
    """Tell whether an id is a control's."""
    return case.startswith(PREFIX)


SAMPLE = 10
"""How many single edits controls are asked about by default."""


def make_controls(
    plugins: Plugins, wanted: Sequence[str | Control], args: Mapping[str, Any], seed: int
) -> tuple[list[Named], int]:
    """Build controls and let them load what they need; objects are taken as they are.

    The second value is the setting ``sample``: how many single edits they are asked about. Raises
    `UsageError` for a setting that none of them has, and what `Control.load` raises.
    """
    asked = [_found(plugins, n) for n in dict.fromkeys(n for n in wanted if isinstance(n, str))]
    found = [(c, each) for c, value in asked for each in c.load().sets.get(value, (value,))]
    known = {"sample"}.union(*(_fields(component) for component, _ in found)) if wanted else set()
    if unknown := [key for key in args if key not in known]:
        fields = ", ".join(sorted(known)) or "none, since there is no --control"
        raise UsageError(f"no control has a field {unknown[0]!r}", f"fields: {fields}")
    made = [_made(component, value, args, seed) for component, value in found]
    given = [each for each in wanted if isinstance(each, Control)]
    made += [Named(type(each).__name__.lower(), each.version, each) for each in given]
    if twice := [n for n, times in Counter(each.name for each in made).items() if times > 1]:
        raise UsageError(f"two controls are called {twice[0]}", "ask for each once")
    for each in made:
        whose = named("control", each.name, each.value)
        with blamed(f"{whose} failed to load what it needs", each.value):
            each.value.load()
    sample = str(args.get("sample", SAMPLE))
    if not sample.isdecimal() or int(sample) < 1:
        raise UsageError(f"sample={sample} is no number of edits", "1 at least: sample=10")
    return made, int(sample)


def _found(plugins: Plugins, text: str) -> tuple[Component, str]:
    """Return the control that a text such as ``lm_eval:TASK`` names, and the value behind the colon."""
    name, _, value = text.partition(":")
    component = plugins.find("control", name.replace("_", "-"))
    takes = component.load().takes
    if bool(value) != bool(takes):
        how = f"{name}:{takes.upper()}" if takes else name
        raise UsageError(
            f"{text!r} is not how a control {name} is asked for", f"write: --control {how}"
        )
    return component, value


def _fields(component: Component) -> set[str]:
    """Return the fields that ``--control-args`` can set."""
    kind = component.load()
    return field_types(kind).keys() - {kind.takes}


def _made(component: Component, value: str, args: Mapping[str, Any], seed: int) -> Named:
    """Return a control with the settings that it has fields for."""
    own = _fields(component)
    given = {key: value for key, value in args.items() if key in own}
    its = {component.load().takes: value} if value else {}
    made = build_component(component, given | its, seed)
    # With underscores, as lm-evaluation-harness is written; hyphens work too.
    name = ":".join(filter(None, (component.name.replace("-", "_"), value)))
    return Named(name, made.version, made, component.package)
