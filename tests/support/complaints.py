"""What a task says of data that are not right."""

import pytest

from edit_harness import DataError


def complaint(task):
    """Return the error with which a task refuses its data."""
    with pytest.raises(DataError) as caught:
        list(task.cases())
    return caught.value
