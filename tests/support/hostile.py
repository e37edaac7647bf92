"""Texts that a screen, a page, a sheet or a template would obey, if anybody let them; most are in ``hostile.json``."""

import json
from pathlib import Path

CONTROLS = [f"a{chr(c)}b" for c in (*range(32), 127, *range(128, 160))]
INVISIBLE = [
    f"left{chr(c)}right"
    for c in (0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070),
              0xFEFF, 0xFFF9, 0xFFFA, 0xFFFB, 0x1D173, 0xE0001, 0xE0041)
]  # fmt: skip
HALVES = ["\ud800", "a\udfffb", "\udcff\udc80", "\ud83d", "\ude00\ud83d"]
LONG = ["ﷺ" * 9, "x" * 5000, "漢" * 900, "9" * 400]
WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_bytes())
STRINGS = list(dict.fromkeys((*CONTROLS, *INVISIBLE, *HALVES, *LONG, *WRITTEN["screen"])))
PAGES = tuple(WRITTEN["page"])
"""What a page would obey."""
