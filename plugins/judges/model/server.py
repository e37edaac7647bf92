"""Asks an OpenAI-compatible server: within limits of time and budget, and once per question.

The package openai sends, waits and tries again. A question without an answer stays unanswered. No redirect
is followed, so that the key stays with its host, and nothing is shown or stored with the key in it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
from anyio.from_thread import start_blocking_portal

from edit_harness.files import cache_folder, digest, replacing

from .dialogue import Answer, Unanswered
from .prompts import encodable

if TYPE_CHECKING:
    from .openai import OpenAI

TIRED = 3
"""After so many questions in a row that no patience got an answer to, the others are not put."""
REST = 60.0
"""Seconds after which a server that was given up is asked again."""
MOST_SHOWN = 200
PASSING = {408, 409, 425, 429}
"""What a server says, besides errors of its own, when it may work later."""
FINAL: Mapping[int, str] = {
    401: "the server refuses the key: check EDIT_HARNESS_JUDGE_KEY or OPENAI_API_KEY",
    402: "the server wants to be paid first",
    404: "the server has no such model or no such address",
}
"""What a server says when nothing that is asked of it will work."""
EMPTY_PURSE = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
LEAST_KEY = 8
"""Characters of a key that is searched for in what a server says. Shorter ones, such as the "x" that
servers of one's own are given, are no secret, and stand in any text."""


class Fault(Exception):
    """A failure that may pass."""


class Refused(Exception):
    """The server will not answer this question; it may answer others."""


class Halted(Exception):
    """The server will answer no question, until somebody mends what it complains of."""


@dataclass
class Server:
    """One server, and what is known of it: whether it works, and what was spent there."""

    judge: OpenAI
    """Who asks, with its settings."""
    url: str
    key: str
    stopped: str = ""
    """Why nothing more is asked."""
    _spent: tuple[int, int] = (0, 0)
    """Tokens of prompts and of answers."""
    _json_mode: bool = True
    _unanswered: list[str] = field(default_factory=list)
    _failed: float = 0.0

    def ask(self, prompts: Sequence[str]) -> list[Answer | Unanswered]:
        """Return the answer to each prompt, or why there is none.

        A server that was given up gets another chance if it had time to come back; one that has
        refused everything gets none.
        """
        if time.monotonic() - self._failed >= REST:
            self._unanswered = []
        # A loop in a thread of its own, since in a notebook this one has a loop already.
        with start_blocking_portal() as portal:
            return portal.call(self._all, prompts)

    async def _all(self, prompts: Sequence[str]) -> list[Answer | Unanswered]:
        places = asyncio.Semaphore(self.judge.workers)

        async def one(prompt: str) -> Answer | Unanswered:
            file = self._file(prompt)
            if (kept := self._kept(file)) is not None:
                return kept
            try:
                async with places:
                    return self._keep(file, await self._patiently(client, prompt))
            except Unanswered as error:
                return error

        async with openai.AsyncOpenAI(
            api_key=self.key or "none",
            base_url=self.url,
            max_retries=self.judge.retries,
            timeout=self.judge.seconds,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        ) as client:
            return await asyncio.gather(*map(one, prompts))

    async def _patiently(self, client: openai.AsyncOpenAI, prompt: str) -> dict[str, Any]:
        """Return the answer, at the last of several attempts. Raises `Unanswered`."""
        if self.stopped:
            raise Unanswered(f"the judge stopped: {self.stopped}")
        if len(self._unanswered) >= TIRED:
            why = f"given up after {TIRED} questions in a row: {self._unanswered[-1]}"
            raise Unanswered(f"{self.url}: {why}")
        tokens, usd = self.judge.budget_tokens, self.judge.budget_usd
        # What is under way by then comes on top of it.
        if 0 < tokens <= sum(self._spent) or 0 < usd <= self._price(*self._spent):
            raise Unanswered("the budget is spent: raise budget_tokens or budget_usd")
        try:
            async with asyncio.timeout(self.judge.patience):
                answer = await self._in_json(client, prompt)
        except Halted as error:
            self.stopped = f"{self.url}: {error}"
            raise Unanswered(f"the judge stopped: {self.stopped}") from None
        except Refused as error:
            raise Unanswered(f"{self.url} refused: {error}") from None
        except (Fault, TimeoutError) as error:
            fault = str(error) or f"no answer in {self.judge.patience:g} seconds"
        else:
            self._unanswered = []
            asked, answered = answer["cost"] or (0, 0)
            self._spent = self._spent[0] + asked, self._spent[1] + answered
            return answer
        self._unanswered.append(fault)
        self._failed = time.monotonic()
        raise Unanswered(f"{self.url}: {fault} (tried again {self.judge.retries} times at most)")

    def _price(self, asked: int, answered: int) -> float:
        return (asked * self.judge.price_in + answered * self.judge.price_out) / 1_000_000

    async def _in_json(self, client: openai.AsyncOpenAI, prompt: str) -> dict[str, Any]:
        """Send a request; without asking for JSON where the server does not take that."""
        body = {"messages": [{"role": "user", "content": prompt}], **self._settings()}
        if not self._json_mode:
            return await self._post(client, body)
        try:
            return await self._post(client, body | {"response_format": {"type": "json_object"}})
        except Refused:
            answer = await self._post(client, body)
        self._json_mode = False
        return answer

    def _settings(self) -> dict[str, Any]:
        return {"model": self.judge.model, "temperature": 0, "max_tokens": self.judge.max_tokens}

    async def _post(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a server answers to a request."""
        try:
            raw = await client.chat.completions.with_raw_response.create(**body)
            return self._read(raw.http_response.content)
        except openai.APIStatusError as error:
            failure = self._failure(error)
        except openai.APITimeoutError:
            failure = Fault("no answer in time")
        except openai.APIConnectionError as error:
            failure = Fault(f"no connection: {self._shown(str(error.__cause__ or error))}")
        raise failure from None

    def _failure(self, error: openai.APIStatusError) -> Exception:
        status, headers = error.status_code, error.response.headers
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.body or error.message)
        said = self._shown(message)
        if 300 <= status < 400:
            to = self._shown(headers.get("Location", ""))
            return Halted(f"HTTP {status}: it sends to {to}, and is not followed")
        if error.code in EMPTY_PURSE:
            return Halted(f"HTTP {status}: the account's quota is used up")
        if status in FINAL:
            return Halted(f"HTTP {status}: {FINAL[status]}")
        if status in PASSING or status >= 500:
            after = headers.get("Retry-After", "")
            return Fault(f"HTTP {status}" + (after and f", with Retry-After: {self._shown(after)}"))
        named = any(f"{mark}{self.judge.model}{mark}" in message for mark in "'`\"")
        if error.code == "model_not_found" or named:
            return Halted(f"HTTP {status}: is there a model {self.judge.model!r}? It says: {said}")
        return Refused(f"HTTP {status}: {said}")

    def _read(self, content: bytes) -> dict[str, Any]:
        try:
            data = json.loads(content)
            message = data["choices"][0]["message"]
            text = encodable(message.get("content") or message.get("refusal") or "")
            usage = data.get("usage") or {}
            cost = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError):
            said = self._shown(content.decode(errors="replace"))
            raise Fault(f"the answer is no chat completion: {said}") from None
        model = f"{data.get('model') or f'{self.judge.model} (as asked)'}"
        served = self._shown(f"{model} {data.get('system_fingerprint') or ''}")
        known = all(type(count) is int and count >= 0 for count in cost)
        return {"text": text, "model": served, "cost": cost if known else None}

    def _file(self, prompt: str) -> Path | None:
        if self.judge.cache == "none":
            return None
        chosen = self.judge.cache != "auto"
        folder = Path(self.judge.cache) if chosen else cache_folder() / "judgements"
        about = {"url": self.url, **self._settings(), "prompt": prompt}
        mark = digest(about)
        return folder.expanduser() / mark[:2] / f"{mark}.json"

    def _kept(self, file: Path | None) -> Answer | None:
        try:
            return self._answer(json.loads(file.read_bytes())) if file else None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None

    def _keep(self, file: Path | None, found: dict[str, Any]) -> Answer:
        """Put an answer into the cache, unless it has the key in it."""
        if file and found["text"] == self._hidden(found["text"]):
            with suppress(OSError), replacing(file) as part:
                part.write_text(json.dumps(found), encoding="utf-8")
        return self._answer(found)

    def _answer(self, found: Mapping[str, Any]) -> Answer:
        usage: dict[str, float] = {}
        if found["cost"]:
            asked, answered = map(int, found["cost"])
            usage["tokens"] = asked + answered
            if self.judge.price_in or self.judge.price_out:
                usage["usd"] = self._price(asked, answered)
        text = str(found["text"])
        return Answer(text, str(found["model"]), usage, self._hidden(text))

    def _shown(self, text: str) -> str:
        return " ".join(self._hidden(text).split())[:MOST_SHOWN]

    def _hidden(self, text: str) -> str:
        """Return a text without the key, should the server repeat it."""
        plain = encodable(text)
        return plain.replace(self.key, "[key]") if len(self.key) >= LEAST_KEY else plain
