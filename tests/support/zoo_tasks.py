"""Misbehaving tasks of the zoo; here, since other processes read them too, which then load no torch."""

from __future__ import annotations

import random
from dataclasses import dataclass

from edit_harness import Case, Choose, Probe, Request, Task

REQUEST = Request("{} lives in", "Ada", "Paris", "Rome")


def case(name, request=REQUEST, prompt=REQUEST.text, **more):
    query = Choose(prompt, (request.target_new, request.target_true))
    return Case(name, (request,), (Probe("efficacy", query),), **more)


@dataclass
class Listed(Task):
    """Cases of the same request, and one that says why it is none."""

    count: int = 5
    extra: object = None
    metrics = ("success",)

    def cases(self):
        yield from (case(str(number)) for number in range(self.count))
        yield Case("last", (), (), problem="it has no subject")


class NoCases(Listed):
    def cases(self):
        yield Case("0", (), (), problem="it has no subject")


class AskedInVain(Listed):
    def cases(self):
        yield case("0")
        yield case("1", problem="it has no subject")


class DoubleIds(Listed):
    def cases(self):
        yield from (case(request.subject) for request in [REQUEST, REQUEST])


class HashedIds(Listed):
    def cases(self):
        yield from (case(str(hash(f"{number}"))) for number in range(self.count))


class Shuffled(Listed):
    def cases(self):
        yield from (case(str(number)) for number in random.sample(range(99), 99))


class UnknownMetric(Listed):
    metrics = ("no-such-metric",)


class SetInATag(Listed):
    def cases(self):
        yield case("0", tags={"of": {"Ada"}})


class ForgetsTheSubject(Listed):
    def cases(self):
        yield case("0", prompt="{} lives in")


class EmptyCandidate(Listed):
    def cases(self):
        yield case("0", Request("{} lives in", "Ada", "Paris", ""))


class ItsOwnNeighbour(Listed):
    def cases(self):
        own = case("0")
        yield Case("0", own.requests, (*own.probes, Probe("neighborhood", own.probes[0].query)))


class SeedsWhenRead(Listed):
    def cases(self):
        random.seed(0)
        yield from super().cases()
