"""What runs came to, written down; and what all that writes files for the user says if it cannot."""

from collections.abc import Iterator
from contextlib import contextmanager

from edit_harness.errors import ResourceError


@contextmanager
def written(name: object, remedy: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a `ResourceError` that names the file."""
    try:
        yield
    except OSError as error:
        raise ResourceError(f"{name} cannot be written: {error.strerror}", remedy) from None
