"""What is imported to print the help: by whom, so that a heavy import is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PROGRAM = """
import json, sys
before = set(sys.modules)
from edit_harness.cli import main
try:
    main(["--help"])
except SystemExit:
    print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before
                                     if name.partition(".")[0] not in sys.stdlib_module_names})))
"""


def cast() -> dict[str, Any]:
    """Return the packages besides the standard library."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return {"--help": json.loads(done.stdout.splitlines()[-1])}
