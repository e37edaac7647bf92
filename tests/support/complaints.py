"""What is said of data and of models that are not right."""

import json

import pytest

from edit_harness import DataError, ModelSource


def complaint(task):
    """Return the error with which a task refuses its data."""
    with pytest.raises(DataError) as caught:
        list(task.cases())
    return caught.value


def refusal(path, error=DataError, *, named=True, **options):
    """Return cause and remedy of a model's refusal, one line each; the cause names it, here as MODEL."""
    from edit_harness_plugins.loading.load import load

    here = {} if "device_map" in options else {"device": "cpu"}
    with pytest.raises(error) as caught:
        load(ModelSource(str(path)), **here | options)
    cause, remedy = caught.value.cause, caught.value.remedy
    assert type(caught.value) is error
    assert len(cause) < 300 + len(str(path))
    assert "\n" not in cause + remedy
    assert remedy
    assert str(path) in cause or error is not DataError or not named
    return f"{cause} | {remedy}".replace(str(path), "MODEL")


def configure(folder, name="config.json", **entries):
    """Change entries of a model's configuration."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
