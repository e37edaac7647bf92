"""From templates to pages: escaping for every text, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .text import clipped, host, visible

FOLDER = Path(__file__).with_name("assets")
STYLE = "style.css"
SCRIPTS = ("tables.js", "explorer.js")
REST = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
SHARED = f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; {REST}"
"""The policy of pages that have their script and style in files beside them."""


def _finalize(value: Any) -> Any:
    """Make a text visible that a template puts into a page; markup of ours passes."""
    return visible(clipped(value)) if type(value) is str else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["link"] = lambda text: bool(host(str(text)))
    environment.filters["host"] = host
    return environment


def page(template: str, **values: Any) -> str:
    """Return a page. The values are texts of anybody; only markup that we made is `Markup`."""
    return _environment().get_template(template).render(**values).strip() + "\n"


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or a script."""
    return (FOLDER / name).read_text(encoding="utf-8")


def inline_policy(style: str, script: str) -> str:
    """Return the policy of a page that has one style and one script in itself, by their digests."""
    return f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; {REST}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
