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
ARGUMENT = r"\s*(\{[^{}]*\}|\\[A-Za-z]+|[^\s{}\\])"
FRACTION = re.compile(rf"\\[dtc]?frac(?![A-Za-z]){ARGUMENT}{ARGUMENT}")
ROOT = re.compile(rf"\\sqrt(?![A-Za-z])(?:\s*\[(\d)\])?{ARGUMENT}")
WRAPPER = re.compile(
    rf"\\(?:text|mathrm|mathbf|mathit|operatorname|textbf|boxed|mbox)(?![A-Za-z]){ARGUMENT}"
)
EXPONENT, GROUP = re.compile(r"\^\s*\{([^{}]*)\}"), re.compile(r"\{([^{}]*)\}")


def plain(text: str) -> str:
    """Return a text without LaTeX, Unicode's signs and Markdown."""
    text = SMALL_FRACTION.sub(lambda found: f"({found[1]}/{found[2]})".translate(DIGITS), text)
    text = VULGAR.sub(_vulgar, text)
    text = re.sub(f"[{SUPERSCRIPTS}]+", lambda found: f"^({found[0].translate(DIGITS)})", text)
    text = re.sub(f"[{SUBSCRIPTS}]+", lambda found: f"_{found[0].translate(DIGITS)} ", text)
    text = COUNTED_PI.sub("pi ", unicodedata.normalize("NFKC", text))
    text = RAISED_RING.sub("°", text).translate(SIGNS).translate(GREEK)
    text = MODULE.sub("", BOLD.sub(r"\1", text))
    return _without_latex(text) if re.search(r"[\\${}]", text) else text


def _vulgar(found: re.Match[str]) -> str:
    fraction = unicodedata.normalize("NFKC", found[2]).replace("⁄", "/")
    return f"({found[1] or 0}+{fraction})"


def _without_latex(text: str) -> str:
    for sign, plain_sign in {"{,}": ",", "\\{": "(", "\\}": ")", "\\%": "%", "\\$": ""}.items():
        text = text.replace(sign, plain_sign)
    text = re.sub(r"\\[()\[\],;:!> ]|\$", " ", text)
    text = re.sub(r"_\{(\w+)\}", r"_\1 ", text)
    before = ""
    while text != before:
        # The commands whose arguments have no braces in them; other braces are brackets, once there is none.
        before = text
        text = FRACTION.sub(lambda f: f" (({f[1].strip('{}')})/({f[2].strip('{}')}))", text)
        text = ROOT.sub(_root, text)
        text = WRAPPER.sub(lambda found: f" {found[1].strip('{}')} ", text)
        text = EXPONENT.sub(r"^(\1)", text)
        text = GROUP.sub(r"(\1)", text) if text == before else text
    if "{" in text:
        raise Unread("a brace is not closed")
    text = text.replace("}", " ")
    return re.sub(
        r"\\([A-Za-z]+|.?)", lambda found: LATEX_SIGNS.get(found[1], f" {found[1]} "), text
    )


def _root(found: re.Match[str]) -> str:
    inside = found[2].strip("{}")
    return f" ({inside})^(1/{found[1]})" if found[1] else f" √({inside})"
