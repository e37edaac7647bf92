"""What ``show`` says of components, and of what a task's data are made of."""

import json
import math
from functools import partial

import pytest
from support.builders import question

from edit_harness import Measure, Regime, Task
from edit_harness.files import strict
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.catalog.show import card, facts, of_kind

ONE_OF_EACH_KIND = {component.kind: component.name for component in Plugins.installed().components}


@pytest.fixture
def tell(tell, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_OFFLINE", "1")
    return partial(tell, "show")


def told(result):
    """The output as one line, however it was wrapped."""
    assert result.exit_code == 0, result.stderr
    assert max(map(len, map(str.rstrip, result.stdout.splitlines()))) <= 80
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND.values(), ids=ONE_OF_EACH_KIND)
def test_a_card_fits_a_terminal_and_is_json(tell, name):
    assert name in told(tell(name))
    content = strict(tell(name, "--json").stdout)
    assert all((content if isinstance(content, dict) else content[0]).values())


def test_every_bundled_component_has_a_card_and_tasks_say_what_they_are():
    plugins = Plugins.installed()
    for component in plugins.components:
        content = card(plugins, component)
        strict(json.dumps(content, default=str))
        if component.kind == "task":
            assert {"protocol", "data", "regime", "metrics", "citation", "version"} <= {*content}
            assert "not installed" not in content["metrics"].values()


def test_the_range_of_a_measure():
    for measure, limits, shown in (
        (Measure("x"), (0, 1), [0, 1]),
        (Measure("x", range=(-1, 1)), (-1, 1), [-1, 1]),
        (Measure("x", unit="0.01 bits"), (0, math.inf), [0, None]),
        (Measure("x", unit=""), (-math.inf, math.inf), [None, None]),
    ):
        assert measure.limits == limits
        assert facts(measure)["range"] == shown


class Bare(Task):
    """A task that says nothing of itself, and names a metric that there is not."""

    metrics = ("no-such-metric",)
    regime = Regime("batch", size=0)

    def cases(self):
        return iter(())


def test_what_a_stranger_leaves_out_is_left_out():
    said = of_kind(Plugins.installed(), Bare)
    assert said["metrics"] == {"no-such-metric": "not installed"}
    assert (said["regime"], said["data"]) == ("batch, all at once", {})


# --stats


def test_statistics_are_of_the_models_sample_unless_the_user_says_otherwise(tell, tmp_path):
    assert "bundled sample" in told(tell("zsre", "--stats"))
    path = tmp_path / "zsre.json"
    path.write_text(json.dumps([question(), question(alt="")]), encoding="utf-8")
    text = told(tell("zsre-alt", "--stats", "--task-args", f"data={path}"))
    assert "1 of 2 records have no alternative answer and are left out" in text
    tables = strict(tell("zsre", "--stats", "--json", "--task-args", f"data={path}").stdout)
    assert tables["what is edited and asked"][0] == {
        "": "cases", "total": 2, "distinct": 2, "per case": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("zsre", "--model", "pocket"), 2, "add --stats"),
        (("zsre", "--stats", "--task-args", "data=x.json"), 4, "there is no file 'x.json'"),
        (("counterfact", "--stats", "-m", "gpt2-xl"), 4, "counterfact.json is not in the cache"),
    ],
)
def test_what_show_refuses(tell, arguments, code, part):
    result = tell(*arguments)
    assert result.exit_code == code
    assert part in result.stderr
    assert result.stdout == ""


def test_a_column_is_explained_by_each_metric_that_has_it(tell):
    assert "column ES of metric success" in told(tell("ES"))
    assert strict(tell("es", "--json").stdout).keys() == {"success"}
