"""Cases for plans."""

from edit_harness import Case, Choose, Probe, Request


def cases(count: int) -> list[Case]:
    request = Request("{} lives in", "Ada", "Paris")
    probe = Probe("efficacy", Choose(request.text, ("Paris", "Rome")))
    return [Case(str(i), (request,), (probe,)) for i in range(count)]
