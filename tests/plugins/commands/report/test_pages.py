"""The page of runs: what it holds, what it leaves out and says so, and what it does in a browser."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from support.browser import browser
from support.builders import replace
from support.page_runs import ELSEWHERE, PAYLOADS, STRINGS, altered, small, spoilt

import edit_harness as eh
from edit_harness.run import report
from edit_harness_plugins.commands.report import page
from edit_harness_plugins.commands.report.facts import statuses
from edit_harness_plugins.commands.report.page import explored
from edit_harness_plugins.commands.report.templates import (
    LONGEST,
    clipped,
    embedded,
    shown,
    visible,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return small(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def many(base):
    """The same with 90 cases of different values, of which some changed nothing."""
    return copies(base, 90)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def copies(base, count):
    """Return a run of many cases like those of another, each with an efficacy of its own."""
    of = [(base.cases[i % 4], base.records[i % 4]) for i in range(count)]
    cases = [replace(case, id=f"c{i}") for i, (case, _) in enumerate(of)]
    rows = [
        replace(r, case=f"c{i}", noop=i % 9 == 0, values=valued(r, i))
        for i, (_, r) in enumerate(of)
    ]
    return altered(base, cases, rows)


def valued(record, i):
    """Return a record's values, with the success of its paraphrases replaced by one of its own."""
    success = {**record.values["success"], "post_PS": (i * 37 % 90) / 90}
    return {**record.values, "success": success}


def written(tmp_path, html):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    return path


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])["runs"]


# --- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("naïve café\n\t한국어", "naïve café\n\t한국어"),
        ("\u202egnp\u202c", "\\u202egnp\\u202c"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\x00\x1b\r\x7f\x85", "\\x00\\x1b\\r\\x7f\\x85"),
        ("\ud83d", "\\ud83d"),
        ("\u2028\u3164\U000e0041", "\\u2028\\u3164\\U000e0041"),
    ],
)
def test_what_no_eye_sees_is_shown_as_an_escape(text, seen):
    assert visible(text) == seen


def test_a_long_text_says_how_much_of_it_is_left_out():
    assert clipped("x" * 1_000_000).endswith("x … (996,000 more characters)")
    assert len(clipped("x" * 1_000_000)) < LONGEST + 40


@pytest.mark.parametrize("text", STRINGS[::7])
def test_data_in_a_script_end_no_script_and_come_back(text):
    found = str(embedded({text: [text, 1, None]}))
    assert not set(found) & set("<>&\u2028\u2029")
    assert found.isascii()
    assert json.loads(found) == shown({text: [text, 1, None]})


# --- what a page holds -------------------------------------------------------------------------------


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
    assert [case | {"probes": 0} for case in some] == [case | {"probes": 0} for case in cases]
    monkeypatch.setattr(page, "BUDGET", 30_000 + page.TABLES)
    html = page.explore([many], "Some")
    assert f"All 90 cases are listed. Prompts and answers of the first {len(whole)}" in html
    assert "cases are listed" not in page.explore([base], "All")


def test_the_answers_to_one_case_are_shown_however_large_they_are(base):
    assert "probes" in explored(base, 1)["cases"][0]


def test_a_relation_has_its_label_beside_its_id(base):
    case = replace(base.cases[0], tags={"relation": "P106", "set": "P0"})
    data = explored(altered(base, [case], base.records[:1]), 1)
    assert data["cases"][0]["tags"] == {"relation": "occupation (P106)", "set": "P0"}


def test_the_page_has_every_number_of_the_table_and_every_status(base):
    html = page.explore([base], "One run")
    for line in base.lines:
        assert f">{report.show(line.after, line)}</td>" in html
    assert statuses(base) == [
        ("ok", 3, "measured"),
        ("edit_failed", 1, "counted as failures"),
    ]
    assert base.failures[0].message in data_of(html)[0]["cases"][0]["message"]
    assert base.manifest.fingerprint[:16] in html


def test_probabilities_in_the_page_are_those_of_the_answers(base):
    (run,) = data_of(page.explore([base], "x"))
    case = next(case for case in run["cases"] if case["id"] == "0")
    (candidate, before, after) = case["probes"]["efficacy"][0]["choices"][0]
    stored = base.records[0].after[0]["logprobs"][0]
    assert candidate == "Paris"
    assert after[0] == pytest.approx(np.exp(np.mean(stored)), rel=1e-3)
    assert before[0] != after[0]


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


# --- in a browser --------------------------------------------------------------------------------------

TITLES = "[...document.querySelectorAll('#cases .number')].map(e => e.textContent.slice(1))"


def choose(tab, where, value):
    tab.run(
        f"(() => {{ const e = document.getElementById({json.dumps(where)}); "
        f"e.value = {json.dumps(value)}; "
        "e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_the_explorer_sorts_filters_and_turns_pages(tab, many, tmp_path):
    tab.open(written(tmp_path, page.explore([many], "Many")))
    by_id = {r.case: r for r in many.records}
    assert tab.run("document.getElementById('found').textContent") == "90 of 90 cases"
    assert {by_id[name].status for name in tab.run(TITLES)} == {"edit_failed"}

    choose(tab, "order", "PS")
    seen = tab.run(TITLES)
    for _ in range(4):
        tab.run("document.getElementById('next').click()")
        seen += tab.run(TITLES)
    assert tab.run("document.getElementById('next').disabled")
    assert tab.run("document.getElementById('page').textContent") == "81 – 90 of 90"
    values = [by_id[name].values["success"]["post_PS"] for name in seen]
    assert values == sorted(values)
    assert len(set(seen)) == 90

    choose(tab, "status", "edit_failed")
    assert {by_id[name].status for name in tab.run(TITLES)} == {"edit_failed"}
    assert tab.run("document.getElementById('page').textContent").endswith(" of 23")
    choose(tab, "status", "")
    tab.run("document.getElementById('noop').click()")
    assert {by_id[name].noop for name in tab.run(TITLES)} == {True}
    tab.run("document.getElementById('noop').click()")
    choose(tab, "text", "DANIELLE lives")
    assert {int(name[1:]) % 4 for name in tab.run(TITLES)} == {3}
    choose(tab, "text", "nobody says this")
    assert tab.run("document.getElementById('found').textContent").startswith(
        "No case is like that"
    )
    assert tab.run(TITLES) == []
    assert (tab.errors, tab.dialogs) == ([], [])


def test_a_case_opens_with_what_was_asked_and_answered(tab, base, tmp_path):
    tab.open(written(tmp_path, page.explore([base], "One")))
    choose(tab, "order", "ES")
    open_first = "document.querySelectorAll('#cases details.case').forEach(e => { e.open = true; })"
    tab.run(f"new Promise(done => {{ {open_first}; setTimeout(done, 50); }})")
    text = tab.run("document.getElementById('cases').textContent")
    for part in ("efficacy", "Neighbour 3 lives in", "before", "after", "edit_failed"):
        assert part in text
    choose(tab, "role", "paraphrase")
    tab.run(f"new Promise(done => {{ {open_first}; setTimeout(done, 50); }})")
    text = tab.run("document.getElementById('cases').textContent")
    assert "Snow fell" in text
    assert "Neighbour 3" not in text


def test_a_table_is_sorted_by_click_and_by_key(tab, base, tmp_path):
    tab.open(written(tmp_path, page.explore([base], "One")))
    column = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => r.cells[2].innerText)"
    head = "document.querySelector('table.sortable th:nth-child(3)')"
    tab.run(f"{head}.querySelector('button').click()")
    assert tab.run(f"{head}.getAttribute('aria-sort')") == "descending"
    falling = [float(text) for text in tab.run(column) if text != "–"]
    assert falling == sorted(falling, reverse=True)
    tab.run(f"{head}.querySelector('button').focus()")
    tab.key("Enter")
    assert tab.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert [float(text) for text in tab.run(column) if text != "–"] == falling[::-1]


def test_several_runs_have_a_table_and_a_choice(tab, base, many, tmp_path):
    other = altered(many, many.cases, list(many.everything), label="other")
    tab.open(written(tmp_path, page.explore([base, other], "Two")))
    visible_runs = "[...document.querySelectorAll('article.run')].map(e => !e.hidden)"
    assert tab.run(visible_runs) == [True, False]
    tab.run("document.querySelector('a[href=\"#run-1\"]').click()")
    assert tab.run(visible_runs) == [False, True]
    assert tab.run("document.getElementById('found').textContent") == "90 of 90 cases"
    assert tab.run("document.querySelectorAll('table.board').length") == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_scrolls_sideways_whatever_its_width(tab, many, tmp_path, width):
    tab.open(written(tmp_path, page.explore([many, many], "Wide")), width)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


def test_without_scripts_all_tables_are_there(tab, base, many, tmp_path):
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(written(tmp_path, page.explore([base, many], "Plain")))
    tab.send("Emulation.setScriptExecutionDisabled", value=False)
    seen = "[...document.querySelectorAll('{}')].filter(e => e.checkVisibility()).length"
    assert tab.run(seen.format("article.run")) == 2
    assert tab.run(seen.format("#explorer, button, select")) == 0
    assert "need JavaScript" in tab.run("document.body.innerText")


def test_hostile_texts_are_shown_and_not_obeyed(tab, base, tmp_path):
    chunks = [STRINGS[i::5] for i in range(5)]
    long = altered(base, *long_text(base))
    html = page.explore([*(spoilt(base, chunk) for chunk in chunks), long], "\n".join(PAYLOADS))
    tab.open(written(tmp_path, html))
    read = """new Promise(async done => {
        const wait = () => new Promise(go => setTimeout(go, 30));
        const select = document.getElementById('which');
        const texts = [document.getElementById('main').textContent];
        for (const option of select.options) {
            select.value = option.value;
            select.dispatchEvent(new Event('input', {bubbles: true}));
            for (;;) {
                document.querySelectorAll('#cases details.case').forEach(e => { e.open = true; });
                await wait();
                texts.push(document.getElementById('cases').textContent);
                const next = document.getElementById('next');
                if (next.disabled) break;
                next.click();
            }
        }
        done(texts.join('\\n\\n'));
    })"""
    text = tab.run(read)
    for hostile in STRINGS:
        for place in ("role {}", "choose {}", "write {}", "{}: {}"):
            shown = place.format(hostile, hostile)
            # What is chosen after has lost the white space around it, such as a next line (U+0085).
            shown = shown.strip() if place == "choose {}" else shown
            assert visible(shown) in text, hostile
    assert "x … (996,000 more characters)" in text
    assert (tab.dialogs, tab.errors) == ([], [])
    assert [r for r in tab.requests if not r.startswith("file:")] == []
    assert ELSEWHERE in text


def long_text(base):
    """Return cases and records with an answer of a million characters."""
    first = base.records[0]
    case = replace(base.cases[0], probes=(eh.Probe("written", eh.Generate("write")),))
    said = [{"text": "x" * 1_000_000}]
    return [case], [replace(first, before=said, after=said)]


# --- what readers were told wrongly once ---------------------------------------------------------------


def test_a_failed_case_has_no_answer_after_its_edit(base):
    found = next(c for c in data_of(page.explore([base], "x"))[0]["cases"] if c["status"] != "ok")
    choices = [c for probes in found["probes"].values() for p in probes for c in p["choices"]]
    assert all(before is not None and after is None for _, before, after in choices)


def test_a_search_looks_into_texts_alone(base, tab, tmp_path):
    opened = tab.open(written(tmp_path, page.explore([base], "one")))
    for text, expected in (("null", 0), ("status", 0), ("danielle", 1)):
        opened.run(f"document.getElementById('text').value = '{text}'")
        opened.run("document.getElementById('filters').dispatchEvent(new Event('input'))")
        assert opened.run("document.querySelectorAll('#cases .case').length") == expected, text
