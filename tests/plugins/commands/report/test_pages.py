"""The page of runs: what it holds, what it leaves out and says so, and what it does in a browser."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from support.builders import replace
from support.page_runs import STRINGS, altered, copies, small

from edit_harness.run import report
from edit_harness_plugins.commands.report import page
from edit_harness_plugins.commands.report.facts import statuses
from edit_harness_plugins.commands.report.page import explored
from edit_harness_plugins.commands.report.templates import embedded, shown, visible


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return small(tmp_path_factory.mktemp("base"))


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])["runs"]


def test_what_no_eye_sees_is_shown_as_an_escape():
    assert visible("naïve café\n\t한국어") == "naïve café\n\t한국어"
    for unseen in "\u202e\u200b\ufeff\x00\x1b\r\x7f\x85\ud83d\u2028\u3164\U000e0041":
        assert visible(f"a{unseen}b") == f"a{ascii(unseen)[1:-1]}b"


@pytest.mark.parametrize("text", STRINGS[::7])
def test_data_in_a_script_end_no_script_and_come_back(text):
    found = str(embedded({text: [text, 1, None]}))
    assert not set(found) & set("<>&\u2028\u2029")
    assert found.isascii()
    assert json.loads(found) == shown({text: [text, 1, None]})


def test_all_cases_are_listed_those_that_failed_first_and_a_budget_keeps_answers(base, monkeypatch):
    many = copies(base, 90)
    cases = explored(many, 10_000_000)["cases"]
    statuses = [case["status"] for case in cases]
    assert statuses == sorted(statuses, key=["edit_failed", "ok"].index)
    some = explored(many, 30_000)["cases"]
    whole = [case for case in some if "probes" in case]
    assert 5 < len(whole) < len(some) == len(cases) == 90
    assert len(embedded(whole)) <= 30_002
    assert whole == cases[: len(whole)]
    monkeypatch.setattr(page, "BUDGET", 30_000 + page.TABLES)
    html = page.explore([many], "Some")
    assert f"All 90 cases are listed. Prompts and answers of the first {len(whole)}" in html
    assert "cases are listed" not in page.explore([base], "All")
    case = replace(base.cases[0], tags={"relation": "P106", "set": "P0"})
    (found,) = explored(altered(base, [case], base.records[:1]), 1)["cases"]
    assert found["tags"] == {"relation": "occupation (P106)", "set": "P0"}
    assert "probes" in found, "of one however large"


def test_the_page_has_every_number_of_the_table_and_every_status(base):
    html = page.explore([base], "One run")
    for line in base.lines:
        assert f">{report.show(line.after, line)}</td>" in html
    assert statuses(base) == [("ok", 3, "measured"), ("edit_failed", 1, "counted as failures")]
    assert base.failures[0].message in data_of(html)[0]["cases"][0]["message"]
    assert base.manifest.fingerprint[:16] in html
    # Probabilities are those of the answers.
    (run,) = data_of(html)
    case = next(case for case in run["cases"] if case["id"] == "0")
    (candidate, before, after) = case["probes"]["efficacy"][0]["choices"][0]
    stored = base.records[0].after[0]["logprobs"][0]
    assert candidate == "Paris"
    assert after[0] == pytest.approx(np.exp(np.mean(stored)), rel=1e-3)
    assert before[0] != after[0]
    # A failed case has no answer after its edit.
    found = next(c for c in run["cases"] if c["status"] != "ok")
    choices = [c for probes in found["probes"].values() for p in probes for c in p["choices"]]
    assert all(before is not None and after is None for _, before, after in choices)


def test_the_page_is_the_same_each_time_and_lets_nothing_else_in(base):
    html = page.explore([base], "x")
    assert html == page.explore([base], "x")
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy.replace("&#39;", "'")
    assert set(re.findall(r'(?:src|href|action)=(".)', html)) == {'"#'}
