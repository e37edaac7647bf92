"""The bundled samples, whose building asks the model some ten thousand things."""

import pytest
from support.pocket_world import WORLD, built_of_the_world

from edit_harness_plugins.models.pocket import FILES


@pytest.mark.slow
def test_the_sample_is_what_the_builder_makes_of_the_world(tmp_path):
    settings = {"size": 500, "fewest_neighbours": 5, "withhold": True}
    fillers = WORLD / "fillers.json"
    made = built_of_the_world(tmp_path, "counterfact", 9, fillers=fillers, **settings)
    assert made.read_bytes() == (FILES / "counterfact.json").read_bytes()


@pytest.mark.slow
def test_the_sample_about_people_is_what_the_builder_makes_of_the_world(tmp_path):
    files = {"tags": WORLD / "people.json", "places": WORLD / "places.json"}
    made = built_of_the_world(tmp_path, "seesaw", 1, cases=24, people=12, phrasings=1, **files)
    shipped = {path.name: path.read_bytes() for path in (FILES / "seesaw").iterdir()}
    assert {path.name: path.read_bytes() for path in made.iterdir()} == shipped
