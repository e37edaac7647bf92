"""One request to an OpenAI-compatible server, and what can go wrong with it.

The package openai sends it; the bounds are set here: no redirect is followed, so that the key stays
with the host that it is for, an answer has a largest size and a longest time, and nothing but the
JSON that was asked for is read as one. Whether to try again is `desk`'s to decide.
"""

from __future__ import annotations

import email.utils
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import httpx2
import openai

from .budget import Cost
from .chat import encodable

MOST_BYTES = 1_000_000
MOST_SHOWN = 200
PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
"""What a server says when it may work later."""
FORBIDDEN = 403
FINAL: Mapping[int, str] = {
    401: "the server refuses the key: check EDIT_HARNESS_JUDGE_KEY or OPENAI_API_KEY",
    402: "the server wants to be paid first",
    FORBIDDEN: "the server does not let this key in",
    404: "the server has no such model or no such address",
}
"""What a server says when nothing that is asked of it will work."""
LEAST_KEY = 8
"""Characters of a key that is searched for in what a server says. Shorter ones, such as the "x" that
servers of one's own are given, are no secret, and stand in any text."""
EMPTY_PURSE = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")


class Fault(Exception):
    """A failure that may pass; ``after`` is how many seconds the server asks to wait."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class Refused(Exception):
    """The server will not answer this question; it may answer others."""


class Halted(Exception):
    """The server will answer no question, until somebody mends what it complains of."""


class Forbidden(Halted):
    """The server does not let the key in; or not with this question, if it did with others."""


class _Oversize(Exception):
    """An answer with more bytes than one may have."""


class _Coded(Exception):
    """An answer that is compressed, though nobody asked for that: its size cannot be told."""


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    text: str
    """To be read; what is stored or shown of it has to be `Wire.hidden`."""
    model: str = ""
    """The model that answered and its version, in the server's words."""
    cost: Cost | None = None
    """None if the server does not say."""


class Wire:
    """A connection to one server, for any number of threads.

    ``url`` is empty for OpenAI's own server, ``seconds`` the longest time of an exchange. Of what the
    server says, nothing but `Answer.text` leaves this class with the key in it.
    """

    def __init__(self, url: str, key: str, seconds: float) -> None:
        self._key = key
        self._client = openai.OpenAI(
            api_key=key or "none",
            base_url=url or None,
            max_retries=0,
            timeout=seconds,
            http_client=_Client(
                seconds,
                follow_redirects=False,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [_bound]},
                # The connection of each exchange is its own, so that it can be ended.
                limits=httpx2.Limits(max_keepalive_connections=0),
            ),
        )

    def post(self, body: Mapping[str, Any]) -> Answer:
        """Return the answer to a chat request.

        Raises `Fault`, `Refused` or `Halted`; none of them carries the library's error, which knows
        the request with its headers.
        """
        try:
            raw = self._client.chat.completions.with_raw_response.create(**body).http_response
            return self._answer(raw, str(body["model"]))
        except openai.APIStatusError as error:
            failure = self._failure(error, str(body["model"]))
        except openai.APITimeoutError:
            failure = Fault("no answer in time")
        except openai.APIConnectionError as error:
            failure = Fault(f"no connection: {self._shown(str(error.__cause__ or error))}")
        except _Oversize:
            failure = Fault(f"an answer of more than {MOST_BYTES:,} bytes")
        except _Coded:
            failure = Fault("a compressed answer, which was not asked for")
        except httpx2.HTTPError as error:
            failure = Fault(f"the connection broke: {type(error).__name__}")
        raise failure from None

    def _failure(self, error: openai.APIStatusError, model: str) -> Exception:
        """Return what an answer with another status than 200 amounts to."""
        status, message = error.status_code, _message(error)
        said = self._shown(message)
        if 300 <= status < 400:
            to = error.response.headers.get("Location", "")
            return Halted(f"HTTP {status}: it sends to {self._shown(to)}, and is not followed")
        if error.code in EMPTY_PURSE:
            return Halted(f"HTTP {status}: the account's quota is used up")
        if status == FORBIDDEN:
            return Forbidden(f"HTTP {status}: {FINAL[status]}")
        if status in FINAL:
            return Halted(f"HTTP {status}: {FINAL[status]}")
        if status in PASSING:
            return Fault(f"HTTP {status}", _retry_after(error.response.headers))
        named = any(f"{mark}{model}{mark}" in message for mark in "'`\"")
        if 400 <= status < 500 and (error.code == "model_not_found" or named):
            return Halted(f"HTTP {status}: is there a model {model!r}? It says: {said}")
        return Refused(f"HTTP {status}: {said}")

    def _answer(self, response: httpx2.Response, asked: str) -> Answer:
        """Return what is in a response. Raises `Fault` if it is no answer to a chat request.

        ``asked`` is the model that was asked for, which goes down if the server names none.
        """
        kind = response.headers.get("Content-Type", "nothing").partition(";")[0]
        if "json" not in kind:
            raise Fault(f"the answer is {self._shown(kind)}, not JSON")
        try:
            data = json.loads(response.content)
            message = data["choices"][0]["message"]
            text = message.get("content") or message.get("refusal") or ""
        except (ValueError, RecursionError):
            raise Fault("the answer is no whole JSON") from None
        except (AttributeError, IndexError, KeyError, TypeError):
            raise Fault("the answer has no message in it") from None
        if not isinstance(text, str):
            raise Fault("the answer's message is no text")
        model, mark = (
            name if isinstance(name, str) else ""
            for name in (data.get("model"), data.get("system_fingerprint"))
        )
        served = f"{model or f'{asked} (as asked)'} {mark}".rstrip()
        return Answer(encodable(text), self._shown(served), _cost(data.get("usage")))

    def _shown(self, text: str) -> str:
        """Return the beginning of what a server says, in one line."""
        return " ".join(self.hidden(text).split())[:MOST_SHOWN]

    def hidden(self, text: str) -> str:
        """Return a text without the key, should the server repeat it."""
        plain = encodable(text)
        return plain.replace(self._key, "[key]") if len(self._key) >= LEAST_KEY else plain


class _Client(openai.DefaultHttpxClient):
    """Ends an exchange that has taken its time, whatever of it the server keeps up.

    A timeout of the library is of one read: a server that sends byte after byte would never end.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and read the whole answer."""
        with _Deadline(self._seconds) as deadline:
            request.extensions["trace"] = deadline.trace
            try:
                response = super().send(request, **options)
            except httpx2.HTTPError:
                if not deadline.over:
                    raise
            else:
                if not deadline.over:  # or else its end may be ours
                    return response
        raise httpx2.ReadTimeout("the exchange takes too long")


class _Deadline:
    """Shuts the connection of one exchange down once its time is over."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._connection: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._connection:
            self._connection.close()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of the connection; a copy of it, since TLS takes the socket over."""
        if event == "connection.connect_tcp.complete":
            self._connection = info["return_value"].get_extra_info("socket").dup()
            if self.over:
                self._end()

    def _end(self) -> None:
        self.over = True
        with suppress(OSError):  # the server was faster
            if self._connection:
                self._connection.shutdown(socket.SHUT_RDWR)


def _bound(response: httpx2.Response) -> None:
    """See to it that a response ends before any of it is read."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _Coded
    assert isinstance(response.stream, httpx2.SyncByteStream)
    response.stream = _Bounded(response.stream)


@dataclass(frozen=True)
class _Bounded(httpx2.SyncByteStream):
    """A response's bytes, as long as they are not too many."""

    stream: httpx2.SyncByteStream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self.stream:
            size += len(part)
            if size > MOST_BYTES:
                raise _Oversize
            yield part

    def close(self) -> None:
        self.stream.close()


def _message(error: openai.APIStatusError) -> str:
    """Return what an answer with an error says; not every server says it in OpenAI's form."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return str(body or error.message)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server asks to wait, given as a number or as a date, or 0."""
    said = headers.get("Retry-After", "")
    try:
        wait = float(said)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(said).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return wait if 0 < wait < float("inf") else 0.0


def _cost(usage: Any) -> Cost | None:
    """Return what an answer took, if the server says it in whole numbers."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    known = [count for count in counts if type(count) is int and 0 <= count < MOST_BYTES]
    return Cost(*known) if len(known) == len(counts) else None
