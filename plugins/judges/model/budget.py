"""What a judge may spend, in tokens and in dollars, counted while many requests are under way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from .dialogue import Unanswered

MILLION = 1_000_000
Cost: TypeAlias = tuple[int, int]
"""Tokens of prompts and of what is answered."""


@dataclass
class Budget:
    """Tokens and dollars that may be spent; 0 is no limit.

    What a request may take at most is held back while it is under way, so that no number of them
    spends more than there is.
    """

    tokens: int
    usd: float
    prices: tuple[float, float]
    """Dollars for a million tokens of prompts, and of answers."""
    spent: Cost = (0, 0)
    held: list[Cost] = field(default_factory=list)

    def price(self, cost: Cost) -> float:
        """Return dollars."""
        return (cost[0] * self.prices[0] + cost[1] * self.prices[1]) / MILLION

    async def hold(self, most: Cost) -> None:
        """Hold back what a request may take, once others have given back what they do not need.

        Raises `Unanswered` if there would be no room even with nothing held back.
        """
        while not self._allows(most, *self.held):
            if not self._allows(most):
                raise Unanswered("the budget is spent: raise budget_tokens or budget_usd")
            await asyncio.sleep(0.01)
        self.held.append(most)

    def settle(self, most: Cost, took: Cost) -> None:
        """Give back what was held, and take down what was spent."""
        self.held.remove(most)
        self.spent = _sum(self.spent, took)

    def _allows(self, *costs: Cost) -> bool:
        cost = _sum(self.spent, *costs)
        within = not self.tokens or sum(cost) <= self.tokens
        return within and (not self.usd or self.price(cost) <= self.usd)


def _sum(*costs: Cost) -> Cost:
    return sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)
