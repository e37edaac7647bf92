"""What a judge may spend, in tokens and in dollars, counted while many threads spend it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True)
class Cost:
    """Tokens of a prompt and of what is answered."""

    prompt: int
    answer: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.prompt + other.prompt, self.answer + other.answer)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.prompt - other.prompt, self.answer - other.answer)

    def usd(self, price_in: float, price_out: float) -> float:
        """Return the price, at dollars per million tokens of either kind."""
        return (self.prompt * price_in + self.answer * price_out) / MILLION


class Spent(Exception):
    """The budget does not allow what was asked for."""


class Budget:
    """Tokens and dollars that may be spent; 0 is no limit.

    What a request may take at most is held back while it is under way, so that no number of threads
    spends more than there is. A request that finds no room waits until others give back what they
    did not need.
    """

    def __init__(self, tokens: int, usd: float, price_in: float, price_out: float) -> None:
        self.most = tokens or math.inf, usd or math.inf
        self.prices = price_in, price_out
        self.spent = self._held = Cost(0, 0)
        self._changed = threading.Condition()

    @contextmanager
    def holding(self, most: Cost) -> Iterator[Callable[[Cost], None]]:
        """Hold back what a request may take, and give what takes down what it took.

        Without that, as when it fails, nothing is spent. Raises `Spent` if there would be no room
        even with nothing held back.
        """
        took = Cost(0, 0)

        def settle(cost: Cost) -> None:
            nonlocal took
            took = cost

        with self._changed:
            while not self._allows(self.spent + self._held + most):
                if not self._allows(self.spent + most):
                    raise Spent
                self._changed.wait()
            self._held += most
        try:
            yield settle
        finally:
            with self._changed:
                self._held -= most
                self.spent += took
                self._changed.notify_all()

    def _allows(self, cost: Cost) -> bool:
        tokens, usd = self.most
        return cost.prompt + cost.answer <= tokens and cost.usd(*self.prices) <= usd
