"""What the tests of tasks share: files of records, and downloads that have been made."""

import hashlib
import json
from dataclasses import replace

import pytest


@pytest.fixture
def store(tmp_path):
    """Write a file of records, or of any text, and return its path."""

    def write(*records, name="facts.json", text=None):
        if text is None:
            lines = name.endswith(".jsonl")
            text = "\n".join(map(json.dumps, records)) if lines else json.dumps(records)
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


@pytest.fixture
def download(store, tmp_path, monkeypatch):
    """Put a task's file into the cache as if it had been downloaded; return its checksum.

    The authors' file is taken for one of two records.
    """
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def put(kind, *records, text=None):
        known = kind.published
        monkeypatch.setattr(kind, "published", replace(known, records=2))
        path = store(*records, name=known.remote.name, text=text)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return put
