"""Lets pytest run the classes of a plan, and notes in the ledger what comes of each test."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Collection, Generator, Mapping
from typing import Any

import pytest

from .check_reasons import NotTried, reason, report
from .ledger import Finding, Ledger

FATAL = 3
"""Checks of one subject that may take the process down, until the rest of it is not tried."""


class Reporter:
    """A plugin of pytest: gives it the tests, and takes the results."""

    def __init__(
        self,
        classes: Mapping[type, str],
        ledger: Ledger,
        words: str,
        files: Collection[str] = (),
    ) -> None:
        self.classes, self.ledger, self.files = classes, ledger, files
        self.words = words.lower().split()
        self.running = Finding("", "", "")

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Put the classes into the one module that there is."""
        if isinstance(collector, pytest.Module):
            vars(collector.obj).update({tests.__name__: tests for tests in self.classes})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what cannot be collected."""
        if report.failed:
            finding = Finding("package", f"has suites that pytest reads: {report.nodeid}", "")
            *_, last = str(report.longrepr).strip().split("\n")
            self.ledger.end(finding.ended("failed", last.strip(), details=str(report.longrepr)))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is done, what was not asked for, and what takes the process down."""
        state = self.ledger.read()
        findings = {item: self._finding(item) for item in items}
        self._note_empty({finding.subject for finding in findings.values()})
        chosen = {item: f for item, f in findings.items() if self._wanted(f)}
        self.ledger.select(len(chosen))
        fatal = Counter(finding.subject for finding in state.findings if finding.fatal)
        items[:] = []
        for item, finding in chosen.items():
            if finding.key in state.known:
                continue
            if fatal[finding.subject] < FATAL:
                items.append(item)
            else:
                said = f"{FATAL} checks before it did not come to their ends"
                self.ledger.end(finding.ended("not tried", said))

    def _note_empty(self, subjects: set[str]) -> None:
        for subject in self.classes.values():
            finding = Finding(subject, "has a suite with tests", "")
            if subject not in subjects and finding.key not in self.ledger.read().known:
                said = "pytest finds none: it takes methods that begin with test_, and no __init__"
                self.ledger.end(finding.ended("not tried", said))

    def _wanted(self, finding: Finding) -> bool:
        text = f"{finding.subject} {finding.name} {finding.says}".lower()
        return all(word in text for word in self.words)

    def _finding(self, item: pytest.Item) -> Finding:
        of = next(vars(node)["_obj"] for node in item.listchain() if isinstance(node, pytest.Class))
        return Finding(self.classes[of], named(item), says(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note that a test begins, and what came of it."""
        self.running = self._finding(item)
        self.ledger.begin(self.running)
        start = time.perf_counter()
        done = yield
        extra = {k: v for k, v in item.user_properties if k in ("table", "results")}
        seconds = round(time.perf_counter() - start, 3)
        self.ledger.end(self.running.ended(self.running.outcome, self.running.reason,
                                           seconds=seconds, **extra))  # fmt: skip
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take the result of a part of a test; the first that did not pass counts."""
        result = yield
        if call.excinfo and self.running.outcome == "passed":
            error = call.excinfo.value
            if isinstance(error, NotTried):
                self.running = self.running.ended("not tried", str(error))
            elif result.skipped:
                self.running = self.running.ended("skipped", str(error))
            else:
                self.running = self.running.ended(
                    "failed",
                    reason(error, self.files),
                    details=report(error, self.files, str(result.longrepr)),
                    raised=not isinstance(error, AssertionError | pytest.fail.Exception),
                )
        return result


def named(item: pytest.Item) -> str:
    """Return the name of a test as words, with its parameters."""
    words = getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")
    parameters = getattr(item, "callspec", None)
    return f"{words} [{parameters.id}]" if parameters else words


def says(item: pytest.Item) -> str:
    """Return the first line of a test's docstring."""
    first, _, _ = (inspect.getdoc(getattr(item, "function", None)) or "").partition("\n")
    return first.replace("`", "")
