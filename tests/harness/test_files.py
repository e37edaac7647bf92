import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.judge_server import serving

from edit_harness.errors import DataError, ResourceError
from edit_harness.files import replacing, sha256_of
from edit_harness_plugins import downloads
from edit_harness_plugins.downloads import Remote, fetch

CONTENT = b"some facts\n" * 10_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    """Gives its replies, bodies with a status, in turn, the last one for ever."""

    def got(handler):
        server.asked.append(handler.path)
        handler.answer(*(server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]))

    with serving() as server:
        server.replies, server.got = [(CONTENT,)], got
        yield server


def remote(server, *paths, **changes):
    home = server.url.removesuffix("/v1")
    urls = tuple(home + path for path in paths or ("/facts.json",))
    return replace(Remote(urls, "facts.json", len(CONTENT), SHA256), **changes)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    for name in ("EDIT_HARNESS_OFFLINE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def waits(monkeypatch):
    """The seconds that pooch waits between its tries."""
    waited = []
    monkeypatch.setattr("pooch.core.time.sleep", waited.append)
    return waited


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_downloaded_once(server, cache, monkeypatch):
    assert fetch(remote(server)) == cache / "facts.json"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch(remote(server)).read_bytes() == CONTENT
    assert server.asked == ["/facts.json"]
    assert names(cache) == {"facts.json"}


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"x" * len(CONTENT), b""])
def test_a_file_damaged_in_the_cache_is_downloaded_again(server, cache, damage):
    path = fetch(remote(server))
    path.write_bytes(damage)
    assert fetch(remote(server)).read_bytes() == CONTENT
    assert sha256_of(path) == SHA256


def test_another_file_than_expected_is_refused(server, cache, waits):
    body = b"<html>Sign in to the network</html>"
    server.replies = [(body,)]
    with pytest.raises(DataError) as caught:
        fetch(remote(server))
    assert "facts.json could not be downloaded" in caught.value.cause
    assert all(text in caught.value.cause for text in (SHA256, hashlib.sha256(body).hexdigest()))
    assert names(cache) == set()


def test_a_mirror_is_asked_when_the_first_place_has_no_such_file(server, waits):
    server.replies = [*[(b"", 404)] * (1 + downloads.RETRIES), (CONTENT,)]
    assert fetch(remote(server, "/gone", "/mirror")).read_bytes() == CONTENT
    assert server.asked[-1] == "/mirror"
    server.replies = [(b"", 404)]
    with pytest.raises(DataError, match="/mirror: 404 Client Error: Not Found"):
        fetch(remote(server, "/gone", "/mirror", name="other.json"))


def test_a_host_without_an_address_is_said_at_once(cache, waits, monkeypatch):
    monkeypatch.setattr(downloads, "getproxies", dict)
    with pytest.raises(DataError, match=r"no network: no\.invalid cannot be reached"):
        fetch(Remote(("https://no.invalid/facts.json",), "facts.json"))
    assert not waits


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "EDIT_HARNESS_OFFLINE"])
def test_offline_and_not_in_the_cache(server, cache, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(DataError) as caught:
        fetch(remote(server))
    told = f"facts.json is not in the cache, and {variable}=1 forbids downloads"
    assert caught.value.cause == told
    assert (
        f"put {server.url.removesuffix('/v1')}/facts.json at {cache / 'facts.json'}"
        in caught.value.remedy
    )
    cache.mkdir(exist_ok=True)
    (cache / "facts.json").write_bytes(b"damaged")
    with pytest.raises(DataError, match="in the cache is damaged, and"):
        fetch(remote(server))
    assert not server.asked


def test_two_writers_of_one_file_leave_the_last_ones(tmp_path):
    """Item 7 of issue I: each has a name of its own."""
    path = tmp_path / "cache" / "facts.json"
    with replacing(path) as one:
        one.write_text("one")
        with replacing(path) as other:
            other.write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"
    assert names(path.parent) == {"facts.json"}


def test_a_cache_that_cannot_be_written_is_an_error_of_resources(server, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(ResourceError, match="cannot be written") as caught:
        fetch(remote(server))
    assert "EDIT_HARNESS_CACHE" in caught.value.remedy
