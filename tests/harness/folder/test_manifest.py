"""A manifest of another form is damage with a name, never a bug of ours."""

import copy
import json
import shutil

import pytest
from click.testing import CliRunner
from support.builders import ROOT

from edit_harness import files
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, Manifest, as_json, decoded, fingerprint


@pytest.fixture
def folder(tmp_path):
    """A run that is finished."""
    return RunFolder(
        shutil.copytree(ROOT / "tests" / "contracts" / "runs" / "single", tmp_path / "run")
    )


EXTRA = {
    "tuned": {"fields": ["layer"], "task": "toy", "cases": 1, "cases_sha256": "", "marks": [], "score": {}},
    "preview": {"precision": "float16", "floor": 0.1, "largest": 0.2},
    "shard": {
        "number": 1, "of": 2, "cases": ["0"], "cases_digest": "", "planned": 1, "spans": [[0, 1]],
        "visits": [["0", 0]],
    },
}  # fmt: skip
FREE = ("found", "fields", "provenance", "environment", "score", "distributions", "let_in")
"""Entries that hold what others decide."""


def places(said, *way):
    """Yield the ways to all entries of a form that is ours."""
    for name, value in said.items() if isinstance(said, dict) else ():
        yield (*way, name)
        if name not in FREE:
            yield from places(value, *way, name)


def changed(manifest, way, value):
    """Return a manifest with another value in a place, or without it if the value is an ellipsis."""
    other = copy.deepcopy(manifest)
    *parents, last = way
    place = other
    for parent in parents:
        place = place[parent]
    if value is ...:
        place.pop(last, None)
    else:
        place[last] = value
    return other


def test_an_entry_of_another_kind_is_damage(folder):
    whole = as_json(folder.manifest()) | EXTRA
    assert as_json(decoded(whole, Manifest)).keys() == whole.keys()
    for way in places(whole):
        wrong = 5 if isinstance(way_to(whole, way), str | list | dict | None) else "five"
        with pytest.raises(ValueError, match=way[-1]):
            decoded(changed(whole, way, wrong), Manifest)


def way_to(said, way):
    for name in way:
        said = said[name]
    return said


def test_identities_of_before_have_the_same_fingerprints():
    """Those of 252 runs, as they were written before identities had types."""
    runs = json.loads((ROOT / "tests" / "contracts" / "numbers.json").read_text())
    for run in runs.values():
        told = copy.deepcopy(run["identity"]) | {"code": [["edit-harness", "0" * 64]]}
        for part in ("editor", "task", "judge"):
            if told[part]:
                told[part].setdefault("version", "1")
        assert fingerprint(decoded(told, Identity)) == files.digest(told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("identity.seed", -1),
        ("cases", [1]),
        ("metrics", [None]),
        ("judged_by", {"name": "openai"}),
        ("identity.judge", {"name": 1, "version": "", "fields": {}, "provenance": {}}),
        ("identity.regime.unheard", 1),
        ("identity.regime", {"mode": "at leisure"}),
    ],
)
def test_a_command_says_so(folder, name, value):
    path = folder.path / "manifest.json"
    kept = path.read_bytes()
    data = changed(json.loads(kept), name.split("."), value)
    path.write_bytes(files.sealed(data | {"fingerprint": files.digest(data["identity"])}))
    told = CliRunner().invoke(main, ["score", str(folder.path)])
    path.write_bytes(kept)
    assert told.exit_code == 7, told.output
    assert len(told.stderr.splitlines()) == 2
