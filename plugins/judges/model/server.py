"""Asks an OpenAI-compatible server: within limits of time, size and budget, and once per question.

The package openai sends requests, waits and tries again. A question without an answer stays
unanswered, and is never answered by a guess. No redirect is followed, so that the key stays with the
host that it is for, and of what the server says nothing is shown or stored with the key in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
from anyio.from_thread import start_blocking_portal

from edit_harness.files import replacing

from .budget import Budget
from .dialogue import Answer, Unanswered
from .prompts import encodable

TIRED = 3
"""After so many questions in a row that no patience got an answer to, the others are not put."""
REST = 60.0
"""Seconds after which a server that was given up is asked again."""
BYTES = 3
"""Bytes of a token, by which a prompt is counted before the server has; most have more."""
MOST_BYTES = 1_000_000
"""Of an answer."""
MOST_SHOWN = 200
PASSING = {408, 409, 425, 429}
"""What a server says, besides errors of its own, when it may work later."""
FORBIDDEN = 403
FINAL: Mapping[int, str] = {
    401: "the server refuses the key: check EDIT_HARNESS_JUDGE_KEY or OPENAI_API_KEY",
    402: "the server wants to be paid first",
    FORBIDDEN: "the server does not let this key in",
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


class Unusable(openai.OpenAIError):
    """An answer that is not read to its end."""


@dataclass
class Server:
    """One server, and what is known of it: whether it works, and what was spent there."""

    url: str
    key: str
    model: str
    max_tokens: int
    seconds: float
    """The longest time of an exchange, whatever of it the server keeps up."""
    retries: int
    patience: float
    """The longest time of a question, with all attempts."""
    workers: int
    budget: Budget
    cache: Path | None
    """The folder of answers, by the content of what was asked, so that each is paid once."""
    stopped: str = ""
    """Why nothing more is asked."""
    _json_mode: bool = True
    _proven: bool = False
    """Whether it has answered anything."""
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
        first, places = asyncio.Lock(), asyncio.Semaphore(self.workers)

        async def one(prompt: str) -> Answer | Unanswered:
            about = {"url": self.url, **self._body(), "prompt": prompt}
            if (kept := self._kept(about)) is not None:
                return kept
            try:
                async with places:
                    # No two at once until one was answered: the first may refuse them all.
                    async with first:
                        if not self._proven:
                            return self._keep(about, await self._within_budget(client, prompt))
                    return self._keep(about, await self._within_budget(client, prompt))
            except Unanswered as error:
                return error

        async with openai.AsyncOpenAI(
            api_key=self.key or "none",
            base_url=self.url,
            max_retries=self.retries,
            http_client=_Client(self.seconds),
        ) as client:
            return await asyncio.gather(*map(one, prompts))

    def _body(self) -> dict[str, Any]:
        return {"model": self.model, "temperature": 0, "max_tokens": self.max_tokens}

    async def _within_budget(self, client: openai.AsyncOpenAI, prompt: str) -> dict[str, Any]:
        most = (len(prompt.encode()) // BYTES + 1, self.max_tokens)
        await self.budget.hold(most)
        took = 0, 0
        try:
            answer = await self._patiently(client, prompt)
            took = answer["cost"] or most
        finally:
            self.budget.settle(most, took)
        self._proven, self._unanswered = True, []
        return answer

    async def _patiently(self, client: openai.AsyncOpenAI, prompt: str) -> dict[str, Any]:
        """Return the answer, at the last of several attempts. Raises `Unanswered`."""
        if self.stopped:
            raise Unanswered(f"the judge stopped: {self.stopped}")
        if len(self._unanswered) >= TIRED:
            why = f"given up after {TIRED} questions in a row: {self._unanswered[-1]}"
            raise Unanswered(f"{self.url}: {why}")
        try:
            async with asyncio.timeout(self.patience):
                return await self._in_json(client, prompt)
        except Halted as error:
            self.stopped = f"{self.url}: {error}"
            raise Unanswered(f"the judge stopped: {self.stopped}") from None
        except Refused as error:
            raise Unanswered(f"{self.url} refused: {error}") from None
        except TimeoutError:
            fault = f"no answer in {self.patience:g} seconds"
        except Fault as error:
            fault = str(error)
        self._unanswered.append(fault)
        self._failed = time.monotonic()
        raise Unanswered(f"{self.url}: {fault} (tried again {self.retries} times at most)")

    async def _in_json(self, client: openai.AsyncOpenAI, prompt: str) -> dict[str, Any]:
        """Send a request; without asking for JSON where the server does not take that."""
        body = {"messages": [{"role": "user", "content": prompt}], **self._body()}
        if not self._json_mode:
            return await self._post(client, body)
        try:
            return await self._post(client, body | {"response_format": {"type": "json_object"}})
        except Refused:
            answer = await self._post(client, body)
        self._json_mode = False
        return answer

    async def _post(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a server answers to a request.

        Raises `Fault`, `Refused` or `Halted`; none of them carries the library's error, which knows
        the request with its headers.
        """
        try:
            raw = await client.chat.completions.with_raw_response.create(**body)
            return self._read(raw.http_response.content)
        except openai.APIStatusError as error:
            failure = self._failure(error)
        except openai.APITimeoutError:
            failure = Fault("no answer in time")
        except openai.APIConnectionError as error:
            failure = Fault(f"no connection: {self._shown(str(error.__cause__ or error))}")
        except Unusable as error:
            failure = Fault(str(error))
        raise failure from None

    def _failure(self, error: openai.APIStatusError) -> Exception:
        """Return what an answer with another status than 200 amounts to."""
        status, headers = error.status_code, error.response.headers
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.body or error.message)
        if 300 <= status < 400:
            to = self._shown(headers.get("Location", ""))
            return Halted(f"HTTP {status}: it sends to {to}, and is not followed")
        if error.code in EMPTY_PURSE:
            return Halted(f"HTTP {status}: the account's quota is used up")
        if status in FINAL:
            one = status == FORBIDDEN and self._proven  # not with this question, if with others
            return (Refused if one else Halted)(f"HTTP {status}: {FINAL[status]}")
        if status in PASSING or status >= 500:
            after = headers.get("Retry-After", "")
            return Fault(f"HTTP {status}" + (after and f", with Retry-After: {self._shown(after)}"))
        named = any(f"{mark}{self.model}{mark}" in message for mark in "'`\"")
        said = self._shown(message)
        if error.code == "model_not_found" or named:
            return Halted(f"HTTP {status}: is there a model {self.model!r}? It says: {said}")
        return Refused(f"HTTP {status}: {said}")

    def _read(self, content: bytes) -> dict[str, Any]:
        """Return text, model and cost of an answer to a chat request. Raises `Fault`."""
        try:
            data = json.loads(content)
            message = data["choices"][0]["message"]
            text = message.get("content") or message.get("refusal") or ""
            encodable(text)
        except (ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError):
            said = self._shown(content.decode(errors="replace"))
            raise Fault(f"the answer is no chat completion: {said}") from None
        model, mark = (
            name if isinstance(name, str) else ""
            for name in (data.get("model"), data.get("system_fingerprint"))
        )
        served = f"{model or f'{self.model} (as asked)'} {mark}".rstrip()
        return {
            "text": encodable(text),
            "model": self._shown(served),
            "cost": _counts(data.get("usage")),
        }

    def _answer(self, found: Mapping[str, Any]) -> Answer:
        usage: dict[str, float] = {}
        if found["cost"]:
            prompt, answer = map(int, found["cost"])
            usage["tokens"] = prompt + answer
            if any(self.budget.prices):
                usage["usd"] = self.budget.price((prompt, answer))
        text = str(found["text"])
        return Answer(text, str(found["model"]), usage, self._hidden(text))

    def _kept(self, about: Mapping[str, Any]) -> Answer | None:
        """Return an answer from the cache; None if it is not there, or no file of this form."""
        if not self.cache:
            return None
        try:
            return self._answer(json.loads(_file(self.cache, about).read_bytes()))
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None

    def _keep(self, about: Mapping[str, Any], found: dict[str, Any]) -> Answer:
        """Put an answer into the cache, unless it has the key in it."""
        if self.cache and found["text"] == self._hidden(found["text"]):
            with suppress(OSError), replacing(_file(self.cache, about)) as part:
                part.write_text(json.dumps(found), encoding="utf-8")
        return self._answer(found)

    def _shown(self, text: str) -> str:
        """Return the beginning of what a server says, in one line."""
        return " ".join(self._hidden(text).split())[:MOST_SHOWN]

    def _hidden(self, text: str) -> str:
        """Return a text without the key, should the server repeat it."""
        plain = encodable(text)
        return plain.replace(self.key, "[key]") if len(self.key) >= LEAST_KEY else plain


class _Client(httpx2.AsyncClient):
    """Ends an exchange that has taken its time, or that brings more than an answer can have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timeout=seconds, headers={"Accept-Encoding": "identity"})
        self._seconds = seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and read the whole answer."""
        try:
            async with asyncio.timeout(self._seconds):
                response = await super().send(request, **(options | {"stream": True}))
                try:
                    content = await _content(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx2.ReadTimeout("the exchange takes too long") from None
        return httpx2.Response(
            response.status_code, headers=response.headers, content=content, request=request
        )


async def _content(response: httpx2.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Unusable("a compressed answer, which was not asked for")
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > MOST_BYTES:
            raise Unusable(f"an answer of more than {MOST_BYTES:,} bytes")
    return bytes(content)


def _counts(usage: Any) -> tuple[int, int] | None:
    """Return the tokens of a prompt and an answer, if the server says them in whole numbers."""
    found = usage if isinstance(usage, dict) else {}
    given = [found.get(name) for name in ("prompt_tokens", "completion_tokens")]
    counts = [count for count in given if type(count) is int and 0 <= count < MOST_BYTES]
    return (counts[0], counts[1]) if len(counts) == len(given) else None


def _file(folder: Path, about: Mapping[str, Any]) -> Path:
    mark = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return folder / mark[:2] / f"{mark}.json"
