"""Heat maps in a terminal, as a page and as an image: readable without colour, texts escaped."""

import io
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

from edit_harness.errors import ResourceError, UsageError
from edit_harness_plugins.commands.report import heatmaps
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.terminal import Terminal

SMALL = HeatMap(
    "Hidden states",
    ["The", "Needle*", "is"],
    ["0", "1", "2"],
    [[0.0, 0.1, None], [0.8, 0.4, 0.2], [0.0, float("nan"), -0.1]],
    x="layer",
    y="token",
)
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e日本"


def wide(columns):
    names = [str(i) for i in range(columns)]
    return replace(SMALL, columns=names, values=[[i / columns for i in range(columns)]] * 3)


def printed(heat, width=80):
    file = io.StringIO()
    Terminal(file=file, width=width).print(heatmaps.terminal(heat, width))
    return file.getvalue()


def test_every_number_is_shown():
    assert [line.split() for line in printed(SMALL).splitlines() if line.strip()] == [
        ["Hidden", "states"],
        ["token", "0", "1", "2"],
        ["The", "0.00", "0.10", "–"],
        ["Needle*", "0.80", "0.40", "0.20"],
        ["is", "0.00", "–", "-0.10"],
        [*["layer", "from", "left", "to", "right;", "pale", "-0.10,", "dark", "0.80"]],
    ]
    # A map that is wider than the terminal is cut, and loses no column.
    lines = printed(wide(48)).splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    heads = [name for line in lines if line.startswith("token") for name in line.split()[1:]]
    assert heads == [str(i) for i in range(48)]
    numbers = [text for line in lines if line.startswith("Needle*") for text in line.split()[1:]]
    assert numbers == [f"{i / 48:.2f}" for i in range(48)]


def test_a_page_stands_alone_has_every_number_and_escapes_texts_of_strangers():
    page = heatmaps.page([SMALL, wide(4)], "Traces", ["model pocket"])
    assert not [text for text in ("http:", "https:", "src=") if text in page]
    for text in ('<td class="s20">0.80<', "<td>–<", "model pocket", "<span>-0.10</span>"):
        assert text in page
    assert '<td class="s20 top">0.80</td>' in heatmaps.page([replace(SMALL, best=(1, 0))], "Traces")
    assert heatmaps.page([wide(48)], "Traces").count(">.50</td>") == 3, "narrow, with all numbers"
    rows, columns = [HOSTILE, "a\nb", "x"], ["\x1b[2J", HOSTILE, "2"]
    spoilt = replace(SMALL, title=HOSTILE, rows=rows, columns=columns, x=HOSTILE, y=HOSTILE)
    text, spoilt_page = printed(spoilt), heatmaps.page([spoilt], HOSTILE, [HOSTILE])
    assert not {"\x1b", "\u202e"} & {*text, *spoilt_page}
    assert r"a\nb" in text
    assert "<script" not in spoilt_page


@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_an_image_is_what_its_name_says_and_the_same_twice_whatever_its_texts(tmp_path, end):
    pytest.importorskip("matplotlib")
    paths = [tmp_path / f"{name}.{end}" for name in ("one", "two")]
    for path in paths:
        heatmaps.image([replace(SMALL, title=f"$x {HOSTILE}", best=(1, 0)), wide(200)], path, "x")
    assert (made := paths[0].read_bytes()) == paths[1].read_bytes()
    assert made.startswith((b"\x89PNG", b"<?xml", b"%PDF"))
    with pytest.raises(UsageError, match="tells no kind of image"):
        heatmaps.check("map.jpg")


def test_an_image_without_matplotlib_or_a_place_is_refused_in_a_line(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    with pytest.raises(ResourceError, match="cannot be written"):
        heatmaps.write(None, str(tmp_path / "none" / "map.png"), [SMALL], "x", [])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="need matplotlib"):
        heatmaps.image([SMALL], tmp_path / "map.png")
