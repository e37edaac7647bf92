"""A judge behind an OpenAI-compatible server, whose key comes from the environment alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from edit_harness import PluginError, UsageError
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive, Share
from edit_harness_plugins.inputs import elsewhere

from .dialogue import ModelJudge, Said

if TYPE_CHECKING:
    from .server import Server

OWN = "https://api.openai.com/v1"
KEYS = ("EDIT_HARNESS_JUDGE_KEY", "OPENAI_API_KEY")
ADDRESS = re.compile(
    r"https?://(?:\[[\da-f:.]+\]|[^\s/?#@\[\]]+)(?::\d+)?(?:/[^\s?#@]*)?", re.IGNORECASE
)
"""What has no name, password or key in it."""
FROM_ENVIRONMENT = f"a key comes from the environment alone: export {KEYS[0]}=..."


@dataclass
class OpenAI(ModelJudge):
    """A language model on an OpenAI-compatible server says whether a text is right.

    It answers in JSON at temperature 0; of two texts the order is drawn, and a share is judged in
    both. What a server fails at stays pending; an answer that is no verdict three times is unparsed.
    """

    model: str = ""
    """The model's name, as the server knows it."""
    url: str = ""
    """The server's address, such as http://localhost:8000/v1; OPENAI_BASE_URL or else OpenAI's own."""
    max_tokens: Count = 512
    """Tokens of an answer."""
    twice: Share = 0.1
    """Share of the pairs of texts that are judged in both orders; 1 is all of them."""
    seed: int = 0
    """Seed of the order of two texts, and of the share."""
    seconds: Positive = 60.0
    """How long a request may take."""
    retries: Natural = 5
    """How often a request that failed is sent again."""
    patience: Positive = 300.0
    """Seconds that one question may take, with all that is waited."""
    workers: Count = 8
    """Requests under way at once."""
    budget_tokens: Natural = 0
    """Tokens that this run may spend; 0 is no limit."""
    budget_usd: NotNegative = 0.0
    """Dollars that this run may spend; 0 is no limit."""
    price_in: NotNegative = 0.0
    """Dollars for a million tokens of prompts."""
    price_out: NotNegative = 0.0
    """Dollars for a million tokens of answers."""
    cache: str = "auto"
    """The folder where answers are kept; auto is one in the cache folder, none is no folder."""

    practical: ClassVar[Sequence[str]] = (
        "url", "seconds", "retries", "patience", "workers", "budget_tokens", "budget_usd", "price_in",
        "price_out", "cache",
    )  # fmt: skip
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("key", "api_key", "apikey", "token", "secret", "password"), FROM_ENVIRONMENT
    )

    @property
    def provenance(self) -> Mapping[str, str]:
        """The server's address, wherever it comes from.

        Raises `UsageError` if nobody could be asked with these settings, and `PluginError` if the
        package openai is missing.
        """
        self._check()
        return {"server": self._server}

    @property
    def outward(self) -> Sequence[str]:
        """The address, unless it is OpenAI's, the environment's or one of this machine; a folder."""
        known = self._server == OWN or self.url == os.environ.get("OPENAI_BASE_URL")
        names = ["url"] if elsewhere(self.url) and not known else []
        return [*names, "cache"] if self.cache not in ("auto", "none") else names

    @property
    def stopped(self) -> str:
        """Why the server answers nothing more, such as a key that it refuses."""
        return self._asked.stopped if "_asked" in vars(self) else ""

    def ask(self, prompts: Sequence[str]) -> Sequence[Said]:
        """Return the server's answer to each prompt, or why there is none."""
        self._check()
        return self._asked.ask(prompts)

    @property
    def _url(self) -> str:
        return self.url or os.environ.get("OPENAI_BASE_URL", "") or OWN

    @property
    def _server(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"

    @property
    def _key(self) -> str:
        found = (os.environ.get(name, "").strip() for name in KEYS)
        return next(filter(None, found), "")

    @cached_property
    def _asked(self) -> Server:
        from .server import Server  # with the package openai, when it is first needed

        return Server(self, self._server, self._key)

    def _check(self) -> None:
        if not find_spec("openai"):
            raise PluginError(
                "the judge 'openai' needs the package openai, which is not installed",
                "pip install 'edit-harness[openai]'",
            )
        if not self.model:
            raise UsageError(
                "the judge 'openai' does not know which model to ask",
                "--judge-args model=NAME,url=http://localhost:8000/v1",
            )
        if not ADDRESS.fullmatch(self._url):
            raise UsageError(
                "the judge's url is no plain address of a server",
                f"such as http://localhost:8000/v1; {FROM_ENVIRONMENT}",
            )
        if self.budget_usd and not (self.price_in or self.price_out):
            raise UsageError(
                "a budget in dollars needs prices", "--judge-args price_in=...,price_out=..."
            )
        if self._server == OWN and not self._key:
            raise UsageError("the judge 'openai' has no key for OpenAI's server", FROM_ENVIRONMENT)
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError("the judge's key has characters that no key has", FROM_ENVIRONMENT)
