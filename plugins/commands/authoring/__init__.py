"""Commands for authors: new, check, build-data."""
