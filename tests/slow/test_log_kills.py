"""Writers of rows that are killed; a thousand of them: python -m tests.slow.kills.log."""

import subprocess
import sys

from support.builders import ROOT


def test_killed_writers_lose_nothing_that_was_kept():
    command = [sys.executable, "-m", "tests.slow.kills.log", "--kills", "20", "--seed", "1"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills 20" in done.stdout
    assert "lost 0, twice 0, different 0" in done.stdout
    assert "torch imported: False" in done.stdout
