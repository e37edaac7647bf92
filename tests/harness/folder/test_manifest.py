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
from edit_harness.folder.manifest import Identity, decoded, fingerprint


@pytest.fixture
def folder(tmp_path):
    """A run that is finished."""
    return RunFolder(
        shutil.copytree(ROOT / "tests" / "contracts" / "runs" / "single", tmp_path / "run")
    )


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
