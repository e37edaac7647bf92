"""Tables as text: every format takes the meaning from its own signs, and keeps the rest."""

import csv
import io
import math
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from edit_harness_plugins.commands.report import formats
from edit_harness_plugins.commands.report.formats import Cell, Grid
from edit_harness_plugins.commands.report.templates import visible

HOSTILE = (
    "<script>alert(1)</script>", "a|b`c*d_e", r"\input{x}$y$&#%~^", "[link](http://x)", "[/bold]",
    "=1+1", "two\nlines\r\n", "\x1b[31mred", "\u202ertl", "\\\\ & \\hline", "é – ß 漢",
)  # fmt: skip
text = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))


def grid(*labels, **extra):
    cells = [Cell("1.0", "[0.5, 1.5]", "best"), Cell("0.9", mark="second")]
    rows = [([label], cells) for label in labels]
    return Grid("Title", ["Editor"], ["A", "B"], rows, **extra)


class Texts(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


@given(text)
def test_html_has_no_tag_but_its_own(label):
    found = Texts(formats.html([grid(label, notes=[label])]))
    assert found.tags <= {
        "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "strong", "u", "ul", "li",
    }  # fmt: skip
    assert visible(formats.CONTROL.sub(" ", label)).strip() in "".join(found.texts)


@given(text)
def test_a_row_of_markdown_has_its_cells_and_no_link_or_tag(label):
    line = formats.markdown([grid(label)]).splitlines()[4]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4
    name = line[2:].split(" | **")[0]
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>\[\]`*_]", name)


@given(text)
def test_latex_has_no_sign_that_means_something(label):
    """But for what its own escapes consist of."""
    line = formats.latex([grid(label)]).split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    name = line.split(" & \\textbf")[0]
    name = name.replace("-{}", "-")
    known = r"\\(?:text(?:backslash|ascii(?:tilde|circum)|less|greater|bar)\{\}|[{}$&#_%])"
    plain = re.sub(known + r"|\$(?:-|\\[a-z|]+|\^\{\*\})\$|\{\[\}", "", name)
    assert not re.search(r"[\\{}$&#_%~^\[]", plain), plain
    assert "\n" not in line


@given(st.lists(text, min_size=1, max_size=3))
def test_csv_comes_back_and_begins_no_formula(labels):
    rows = [{"editor": label, "value": -0.5} for label in labels]
    written = formats.comma([grid("x", data=rows)])
    found = list(csv.DictReader(io.StringIO(written, newline="")))
    for label, row in zip(labels, found, strict=True):
        assert row["editor"] in (label, f"'{label}")
        assert not row["editor"].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert row["value"] == "-0.5"  # a number is no formula
    assert formats.comma([grid("x", data=[{"a": None, "b": math.nan}, {"b": 1.0, "c": "x"}])]) == (
        "a,b,c\r\n,,\r\n,1.0,x\r\n"
    )


def test_the_best_is_bold_and_the_second_underlined():
    found = [grid("rome")]
    assert "| **1.0** \\[0.5, 1.5\\] | <u>0.9</u> |" in formats.markdown(found)
    assert r"\textbf{1.0} {\scriptsize {[}0.5, 1.5]} & \underline{0.9} \\" in formats.latex(found)
    assert "<strong>1.0</strong> <small>[0.5, 1.5]</small>" in formats.html(found)
    # Labels of LaTeX differ, and a column of small numbers has a unit.
    small = [(["ft-l"], [Cell("0.00012", "[2e-05, 0.0003]"), Cell("-0.5", "[-0.9, 1]")])]
    found = formats.latex([Grid("NKL: x", ["Editor"], ["A", "B"], small)] * 2)
    assert re.findall(r"\\label{(.*)}", found) == ["tab:nkl", "tab:nkl-2"]
    assert r"A ($10^{-4}$) & B \\" in found
    negative = r"$-$0.5 {\scriptsize {[}$-$0.9, 1]}"
    assert rf"ft-l & 1.2 {{\scriptsize {{[}}0.2, 3]}} & {negative}" in found
