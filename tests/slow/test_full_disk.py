"""The log on a disk that is really full, or that may only be read: it needs root."""

import os
import shutil
import subprocess

import pytest

from edit_harness.errors import ResourceError
from edit_harness.folder.log import Log, scan

MARK = "0123456789ab"


@pytest.fixture
def mounted(tmp_path):
    """Mount a file system in memory, of so many kB; skip where that is refused."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting is refused: {done.stderr.strip()}")
        return place

    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root may mount")
    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


def fill(log):
    for number in range(1000):
        log.append({"case": f"c{number}", "text": "x" * 900})


@pytest.mark.parametrize("size", [8, 500])
def test_what_a_full_disk_took_is_kept_and_read(mounted, size):
    samples = mounted(f"size={size}k") / "samples.jsonl"
    log = Log(samples, MARK)
    with pytest.raises(ResourceError, match="No space left") as error:
        fill(log)
    log.close()
    kept = [line.row["case"] for line in scan(samples, MARK)]
    assert f"{len(kept)} rows kept" in error.value.cause
    assert kept == [f"c{number}" for number in range(len(kept))]
    mounted(f"remount,ro,size={size + 100}k")
    with pytest.raises(ResourceError, match="Read-only file system"):
        Log(samples, MARK)
    mounted(f"remount,rw,size={size + 100}k")
    log = Log(samples, MARK)
    assert log.append({"case": "more"}) == len(kept)
    log.close()
