"""Results in a notebook: the frames show the run's own numbers."""

from pathlib import Path

import pytest

from edit_harness.folder.folder import RunFolder
from edit_harness.registry.registry import Plugins
from edit_harness.run.results import Results
from edit_harness_plugins.reading import own_metrics

FOLDER = RunFolder.at(str(Path(__file__).parents[2] / "contracts/runs/single"))


@pytest.fixture(scope="module")
def run():
    return Results.read(FOLDER, own_metrics(Plugins.installed(), FOLDER))


def test_frames_have_each_estimate_and_the_values_that_it_is_the_mean_of(run):
    frame = run.to_frame()
    assert list(frame.index) == list(run.estimates)
    assert list(frame.loc["post_ES"]) == [*vars(run["ES"]).values()]
    frame = run.to_frame(cases=True)
    assert list(frame.index) == run.planned
    assert frame["post_NS"].mean() == pytest.approx(run["NS"].value)
