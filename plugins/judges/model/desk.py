"""Asks one server, from many threads: what is known already, what may be spent, when to give up.

What an answer says is not looked at here: see `chat`. What one request can run into stands in
`wire`. A question without an answer stays unanswered, and is never answered by a guess.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .budget import Budget, Cost, Spent
from .dialogue import Said, Unanswered
from .replies import Replies
from .wire import Answer, Fault, Forbidden, Halted, Refused, Wire

TIRED = 3
"""After so many questions in a row that no patience got an answer to, the others are not put."""
REST = 60.0
"""Seconds after which a server that was given up is asked again."""
FIRST_WAIT = 1.0
LONGEST_WAIT = 120.0
BYTES = 3
"""Bytes of a token, by which a prompt is counted before the server has; most have more."""


def sleep(seconds: float, ended: threading.Event) -> None:
    """Wait, unless all ends before; tests put something faster in its place."""
    ended.wait(seconds)


@dataclass(frozen=True)
class Patience:
    """How often a request is sent again, and how long one question may take, in seconds."""

    retries: int
    seconds: float


class Desk:
    """Puts questions to a server.

    ``asked`` is what a request says besides the prompt: the model and the settings. ``seed`` is of
    the waits.
    """

    def __init__(
        self,
        wire: Wire,
        asked: Mapping[str, Any],
        *,
        url: str,
        replies: Replies,
        budget: Budget,
        patience: Patience,
        seed: int,
    ) -> None:
        self.wire, self.replies, self.budget, self.patience = wire, replies, budget, patience
        self.stopped = ""
        self._asked, self._url, self._seed = dict(asked), url, seed
        self._plain = False
        self._proven = False
        self._first = threading.Lock()
        self._ended = threading.Event()
        self._unanswered: list[str] = []
        self._failed = 0.0

    def begin(self) -> None:
        """Give a server that was given up another chance, if it had time to come back.

        One that has refused everything gets none.
        """
        if time.monotonic() - self._failed >= REST:
            self._unanswered = []

    def stop(self, reason: str) -> None:
        """Put no more questions, and let nobody wait to put one again."""
        self.stopped = reason
        self._ended.set()

    def ask(self, prompt: str) -> Said:
        """Return the answer to a prompt, from the cache if it is there. Raises `Unanswered`."""
        about = {"url": self._url, **self._asked, "prompt": prompt}
        if (kept := _kept(self.replies.get(about))) is not None:
            return self._said(kept)
        answer = self._sent(prompt)
        cost = [answer.cost.prompt, answer.cost.answer] if answer.cost else None
        if answer.text == self.wire.hidden(answer.text):  # or it would be read as another one
            self.replies.put(about, {"text": answer.text, "model": answer.model, "cost": cost})
        return self._said(answer)

    def _said(self, answer: Answer) -> Said:
        usage: dict[str, float] = {}
        if answer.cost:
            usage["tokens"] = answer.cost.prompt + answer.cost.answer
            if any(self.budget.prices):
                usage["usd"] = answer.cost.usd(*self.budget.prices)
        return Said(answer.text, answer.model, usage, self.wire.hidden(answer.text))

    def _sent(self, prompt: str) -> Answer:
        """Send a request; until one was answered, no two at once: the first may refuse them all."""
        if not self._proven:
            with self._first:
                if not self._proven:
                    return self._within_budget(prompt)
        return self._within_budget(prompt)

    def _within_budget(self, prompt: str) -> Answer:
        most = Cost(len(prompt.encode()) // BYTES + 1, self._asked["max_tokens"])
        try:
            with self.budget.holding(most) as settle:
                self._check_open()
                self._check_willing()
                answer = self._patiently(prompt)
                settle(answer.cost or most)
        except Spent:
            raise Unanswered("the budget is spent: raise budget_tokens or budget_usd") from None
        self._proven = True
        self._unanswered = []
        return answer

    def _check_open(self) -> None:
        if self.stopped:
            raise Unanswered(f"the judge stopped: {self.stopped}")

    def _check_willing(self) -> None:
        if len(self._unanswered) >= TIRED:
            why = f"given up after {TIRED} questions in a row: {self._unanswered[-1]}"
            raise Unanswered(f"{self._url}: {why}")

    def _patiently(self, prompt: str) -> Answer:
        """Return the answer, at the last of several attempts. Raises `Unanswered`."""
        jitter = random.Random(f"{self._seed} {prompt}")
        spent = 0.0
        for attempt in range(self.patience.retries + 1):
            began = time.monotonic()
            try:
                return self._once(prompt)
            except Halted as error:
                if isinstance(error, Forbidden) and self._proven:
                    raise Unanswered(f"{self._url} refused: {error}") from None
                self.stop(f"{self._url}: {error}")
                raise Unanswered(f"the judge stopped: {self.stopped}") from None
            except Refused as error:
                raise Unanswered(f"{self._url} refused: {error}") from None
            except Fault as error:
                fault = error
            if fault.after > LONGEST_WAIT:
                fault = Fault(f"{fault}, to be asked again in {fault.after:,.0f} seconds")
                break
            spent += time.monotonic() - began
            wait = FIRST_WAIT * 2**attempt * jitter.uniform(0.5, 1.0)
            wait = min(max(wait, fault.after), LONGEST_WAIT)
            if attempt == self.patience.retries or spent + wait > self.patience.seconds:
                break
            sleep(wait, self._ended)
            spent += wait
            self._check_open()
        self._unanswered.append(str(fault))
        self._failed = time.monotonic()
        times = f"{attempt + 1} times" if attempt else "once"
        raise Unanswered(f"{self._url}: {fault} (asked {times})")

    def _once(self, prompt: str) -> Answer:
        """Send a request; without asking for JSON where the server does not take that."""
        body = {"messages": [{"role": "user", "content": prompt}], **self._asked}
        if self._plain:
            return self.wire.post(body)
        try:
            return self.wire.post({**body, "response_format": {"type": "json_object"}})
        except Refused:
            answer = self.wire.post(body)
        self._plain = True
        return answer


def _kept(found: Mapping[str, Any]) -> Answer | None:
    """Return an answer from the cache; None if the file is not of this form."""
    try:
        cost = Cost(*map(int, found["cost"])) if found["cost"] else None
        return Answer(str(found["text"]), str(found["model"]), cost)
    except (KeyError, TypeError, ValueError):
        return None
