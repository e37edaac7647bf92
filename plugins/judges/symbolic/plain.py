r"""From LaTeX, Unicode and Markdown to one plain way of writing formulas.

``\frac{1}{2}πr²`` becomes ``((1)/(2)) pi r^(2)``. Only characters are replaced here: what the text
means is found out by `edit_harness_plugins.judges.symbolic.grammar`.
"""

from __future__ import annotations

import re
import unicodedata

from .algebra import Unread

SUPERSCRIPTS, SUBSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"
DIGITS = str.maketrans(SUPERSCRIPTS + SUBSCRIPTS, 2 * "0123456789")
VULGAR = re.compile(r"(\d+ ?)?([¼-¾⅐-⅞])")
SMALL_FRACTION = re.compile(f"([{SUPERSCRIPTS}]+)[⁄/]([{SUBSCRIPTS}]+)")
SIGNS = (
    dict.fromkeys(map(ord, "×·⋅∙•∗"), "*")
    | dict.fromkeys(map(ord, "÷∕⁄"), "/")
    | dict.fromkeys(map(ord, "−–‐‑"), "-")
    | dict.fromkeys(map(ord, "≃≅≐"), "≈")
    | {ord("—"): " ; ", ord("’"): "'", ord("`"): " ", ord("π"): " pi ", ord("°"): " degrees "}
)
GREEK = {
    code: f" {unicodedata.name(chr(code)).split()[-1].lower()} "
    for code in [*range(0x3B1, 0x3C0), *range(0x3C1, 0x3CA)]
} | {ord("ϕ"): " phi ", ord("ϑ"): " theta "}
COUNTED_PI = re.compile(r"(?<=\d)(?<!_\d)(?:π|\\pi(?![A-Za-z]))")
"""As 2π in θ/2π, where no space must come between."""
RAISED_RING = re.compile(r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})")
"""LaTeX's way of writing °."""
MODULE = re.compile(r"\b(?:math|np|numpy)\.(?=[a-z])", re.IGNORECASE)
"""Before a name of Python's or JavaScript's, as in ``math.pi``."""
BOLD = re.compile(r"(?<!\S)\*\*(\S[^*]*)\*\*(?!\w)")

LATEX_SIGNS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "approx": "≈", "simeq": "≈", "sim": "≈",
    "left": "", "right": "", "big": "", "Big": "", "bigl": "", "bigr": "", "displaystyle": "",
    "quad": " ", "qquad": " ", "circ": " degrees ", "lbrace": "(", "rbrace": ")", "implies": " ; ",
    "Rightarrow": " ; ", "varphi": " phi ", "vartheta": " theta ", "degree": " degrees ",
}  # fmt: skip
WRAPPERS = ("text", "mathrm", "mathbf", "mathit", "operatorname", "textbf", "boxed", "mbox")
FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac")
DEEPEST = 30


def plain(text: str) -> str:
    """Return a text without LaTeX, Unicode's signs and Markdown.

    Raises `Unread` for braces that are not closed, or nested too deep.
    """
    text = SMALL_FRACTION.sub(_small_fraction, text)
    text = VULGAR.sub(_vulgar, text)
    text = re.sub(f"[{SUPERSCRIPTS}]+", lambda found: f"^({found[0].translate(DIGITS)})", text)
    text = re.sub(f"[{SUBSCRIPTS}]+", lambda found: f"_{found[0].translate(DIGITS)} ", text)
    text = COUNTED_PI.sub("pi ", unicodedata.normalize("NFKC", text))
    text = RAISED_RING.sub("°", text).translate(SIGNS).translate(GREEK)
    text = MODULE.sub("", BOLD.sub(r"\1", text))
    return _without_latex(text) if re.search(r"[\\${}]", text) else text


def _small_fraction(found: re.Match[str]) -> str:
    return f"({found[1].translate(DIGITS)}/{found[2].translate(DIGITS)})"


def _vulgar(found: re.Match[str]) -> str:
    fraction = unicodedata.normalize("NFKC", found[2]).replace("⁄", "/")
    return f"({found[1] or 0}+{fraction})" if found[1] else f"({fraction})"


def _without_latex(text: str) -> str:
    text = (
        text.replace("{,}", ",")
        .replace("\\{", "(")
        .replace("\\}", ")")
        .replace("\\%", "%")
        .replace("\\$", "")
    )
    text = re.sub(r"\\[()\[\],;:!> ]|\$", " ", text)
    text = re.sub(r"_\{(\w+)\}", r"_\1 ", text)
    return _Latex(text).whole()


class _Latex:
    """Reads commands with their arguments, from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def whole(self) -> str:
        """Return the text without commands."""
        parts = []
        while self.at < len(self.text):
            parts.append(self._piece())
        return "".join(parts)

    def _piece(self) -> str:
        """Return what stands for the next character, group or command."""
        character = self.text[self.at]
        if character == "{":
            return f"({self._group()})"
        if character == "\\":
            return self._command()
        self.at += 1
        return " " if character == "}" else character

    def _group(self) -> str:
        """Return what is between the brace here and the one that closes it."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unread(f"nested more than {DEEPEST} deep", hopeless=True)
        self.at += 1
        parts = []
        while self.at < len(self.text) and self.text[self.at] != "}":
            parts.append(self._piece())
        if self.at == len(self.text):
            raise Unread("a brace is not closed")
        self.at += 1
        self.depth -= 1
        return "".join(parts)

    def _command(self) -> str:
        found = re.compile(r"\\([A-Za-z]+|.?)").match(self.text, self.at)
        assert found
        self.at = found.end()
        name = found[1]
        if name in FRACTIONS:
            above, below = self._argument(), self._argument()
            return f" (({above})/({below}))"
        if name == "sqrt":
            return self._root()
        if name in WRAPPERS:
            return f" {self._argument()} "
        return LATEX_SIGNS.get(name, f" {name} ")

    def _root(self) -> str:
        index = re.compile(r"\s*\[(\d)\]").match(self.text, self.at)
        if not index:
            return f" √({self._argument()})"
        self.at = index.end()
        return f" ({self._argument()})^(1/{index[1]})"

    def _argument(self) -> str:
        """Return a command's argument: a group, a command, or one character."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        if self.at == len(self.text):
            raise Unread("a LaTeX command has no argument")
        if self.text[self.at] == "{":
            return self._group()
        return self._piece()
