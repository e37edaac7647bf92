"""A manifest of another form is damage with a name, never a bug of ours."""

import copy
import json

import pytest
from builders import record
from click.testing import CliRunner

import edit_harness as eh
from edit_harness.cli import main
from edit_harness.errors import RunFolderError
from edit_harness.folder import manifests
from edit_harness.testing.tiny import tiny_model

WRONG = (None, 1.5, "x", "\ud800", [1], [None], [{}], {"a": 1})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of one case."""
    path = tmp_path_factory.mktemp("run")
    (path / "facts.json").write_text(json.dumps([record(0)]))
    run = eh.evaluate(
        editor="none", task="counterfact", model=tiny_model(), metrics=["success"],
        task_args={"data": str(path / "facts.json")}, output=path / "out",
    )  # fmt: skip
    return run.folder


SHARD = {
    "number": 1, "of": 2, "cases": ["0"], "cases_digest": "", "planned": 1, "spans": [], "visits": [],
}  # fmt: skip


def changed(manifest, name, value):
    """Return a manifest with another value in a place, or without it if the value is an ellipsis."""
    other = copy.deepcopy(manifest)
    *parents, last = name.split(".")
    place = other
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is ...:
        place.pop(last, None)
    else:
        place[last] = value
    return other


def test_what_a_run_writes_is_of_the_form(folder):
    manifests.check(folder.manifest(), folder.path, numbers=True)


@pytest.mark.parametrize("name", [*manifests.KINDS])
def test_an_entry_of_another_kind_is_damage(folder, name):
    manifest, kind = folder.manifest(), manifests.KINDS[name]
    wrong = [v for v in WRONG if not isinstance(v, kind)]
    for value in wrong:
        if name == "preview.floor":
            manifest["preview"] = {}
        if name.startswith("shard."):
            manifest["shard"] = SHARD
        if name.startswith("tuned."):
            manifest["tuned"] = {}
        with pytest.raises(RunFolderError, match="is missing or of another kind") as e:
            manifests.check(changed(manifest, name, value), folder.path)
        assert name in e.value.cause


@pytest.mark.parametrize("name", [*manifests.NEEDED, *manifests.NUMBERED])
def test_what_is_needed_is_missed(folder, name):
    with pytest.raises(RunFolderError, match=name):
        manifests.check(changed(folder.manifest(), name, ...), folder.path, numbers=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("identity.seed", -1),
        ("cases", [1]),
        ("metrics", [None]),
        ("judged_by", {"name": "openai"}),
        ("identity.judge", {"name": 1, "version": "", "fields": {}, "provenance": {}}),
        ("identity.regime.unheard", 1),
        ("identity.regime", {"mode": "single"}),
    ],
)
def test_a_command_says_so(folder, name, value):
    kept = folder.manifest()
    folder.write_manifest(changed(kept, name, value))
    told = CliRunner().invoke(main, ["score", str(folder.path)])
    folder.write_manifest(kept)
    assert told.exit_code == 7, told.output
    assert len(told.stderr.splitlines()) == 2
