"""What the pages of runs and of the leaderboard do in a browser."""

import json

import pytest
from support.browser import browser
from support.hostile import PAGES
from support.page_runs import STRINGS, copies, of_editor, small, spoilt

from edit_harness_plugins.commands.leaderboard.build import Entry, write
from edit_harness_plugins.commands.report import page
from edit_harness_plugins.commands.report.templates import visible


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return small(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def many(base):
    """The same with 90 cases of different values, of which some changed nothing."""
    return copies(base, 90)


@pytest.fixture(scope="module")
def tab():
    with browser() as found:
        yield found


def written(tmp_path, html):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    return path


# Pages of runs


TITLES = "[...document.querySelectorAll('#cases .number')].map(e => e.textContent.slice(1))"


def press(tab, script):
    tab.run(f"(() => {{ {script}; }})()")


def fill(tab, where, value):
    """Put a value into a field, as who types or chooses it."""
    press(tab, f"const e = document.querySelector({json.dumps(where)}); "
               f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}}))")  # fmt: skip


def test_the_explorer_sorts_filters_and_turns_pages(tab, many, tmp_path):
    tab.open(written(tmp_path, page.explore([many], "Many")), 390)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    by_id = {r.case: r for r in many.records}
    assert tab.run("document.getElementById('found').textContent") == "90 of 90 cases"
    assert {by_id[name].status for name in tab.run(TITLES)} == {"edit_failed"}

    fill(tab, "#order", "PS")
    seen = tab.run(TITLES)
    for _ in range(4):
        tab.run("document.getElementById('next').click()")
        seen += tab.run(TITLES)
    assert tab.run("document.getElementById('next').disabled")
    assert tab.run("document.getElementById('page').textContent") == "81 – 90 of 90"
    values = [by_id[name].values["success"]["post_PS"] for name in seen]
    assert values == sorted(values)
    assert len(set(seen)) == 90

    fill(tab, "#status", "edit_failed")
    assert {by_id[name].status for name in tab.run(TITLES)} == {"edit_failed"}
    assert tab.run("document.getElementById('page').textContent").endswith(" of 23")
    fill(tab, "#status", "")
    fill(tab, "#text", "DANIELLE lives")
    assert {int(name[1:]) % 4 for name in tab.run(TITLES)} == {3}
    fill(tab, "#text", "null")  # what JSON is made of is no text
    assert tab.run(TITLES) == []
    assert (tab.errors, tab.dialogs) == ([], [])


def opened(tab):
    """Return what all cases of a page show when they are open."""
    press(tab, "document.querySelectorAll('#cases details.case').forEach(e => { e.open = true; })")
    return tab.run(
        "new Promise(go => setTimeout(() => go(document.getElementById('cases').textContent), 50))"
    )


def test_a_case_opens_with_what_was_asked_and_answered(tab, base, tmp_path):
    tab.open(written(tmp_path, page.explore([base], "One")))
    fill(tab, "#order", "ES")
    text = opened(tab)
    for part in ("efficacy", "Neighbour 3 lives in", "before", "after", "edit_failed"):
        assert part in text
    fill(tab, "#role", "paraphrase")
    text = opened(tab)
    assert "Snow fell" in text
    assert "Neighbour 3" not in text


def test_hostile_texts_are_shown_and_not_obeyed(tab, base, tmp_path):
    chunks = [STRINGS[i::5] for i in range(5)]
    html = page.explore([spoilt(base, chunk) for chunk in chunks], "\n".join(PAGES))
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
    assert (tab.dialogs, tab.errors) == ([], [])
    assert [r for r in tab.requests if not r.startswith("file:")] == []


# The leaderboard's site


SHOWN = "[...document.querySelectorAll('tr[data-row]:not([hidden]) > th')].map(e => e.textContent.trim())"


def entry(run, badge="replayed 300/300"):
    said = {"contact": "ada@example.org", "licence": "CC-BY-4.0", "tuned_on": "none"}
    return Entry.of(run, said, badge)


@pytest.fixture
def site(base, tmp_path):
    entries = [
        entry(of_editor(base, "weak", 0.2, 0.3), "reproduced"),
        entry(of_editor(base, "bold", 0.9, 0.4), "replayed 299/300"),
        entry(of_editor(base, "mild", 0.5, 0.8), "recomputed"),
        entry(of_editor(base, "tied", 0.5, 0.8)),
        entry(of_editor(base, "half", 1, 1, model={"dtype": "float16"})),
    ]
    write(entries, [("x.zip", "no")], tmp_path / "site", "Board")
    return tmp_path / "site"


def test_the_index_is_sorted_and_filtered(tab, site):
    tab.open(site / "index.html", 390)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.run("document.getElementById('shown').textContent") == "5 of 5 entries"
    rows = f"{SHOWN}.filter(name => name !== 'half')"
    column = "[...document.querySelectorAll('table.board')].find(t => t.rows.length > 2)"
    button = (
        f"[...{column}.tHead.querySelectorAll('button')].find(b => b.textContent.startsWith('ES'))"
    )
    press(tab, f"{button}.click()")
    assert tab.run(rows)[0] == "bold"
    assert tab.run(rows)[-1] == "weak"

    fill(tab, "#board-filters [name=badge]", "replayed")
    assert sorted(tab.run(SHOWN)) == ["bold", "half", "tied"]
    fill(tab, "#board-filters [name=badge]", "")
    fill(tab, "#board-filters [name=editor]", "half")
    assert tab.run(SHOWN) == ["half"]
    fill(tab, "#board-filters [name=editor]", "")
    press(tab, "document.querySelector('#board-filters [type=checkbox]').click()")
    assert "mild" not in tab.run(SHOWN)
    assert (tab.errors, tab.dialogs) == ([], [])


def test_hostile_texts_get_no_further_than_the_page(tab, base, tmp_path):
    parts = [STRINGS[i::4] for i in range(4)]
    many = [
        Entry.of(spoilt(base, part), {text: text for text in part}, "recomputed") for part in parts
    ]
    write(many, [(text, text) for text in STRINGS], tmp_path / "site", "\n".join(STRINGS[:40]))
    data = json.loads((tmp_path / "site" / "results.json").read_text())
    told = {entry["page"]: entry["submission"] for entry in data["entries"]}
    expected = {name: next(p for p in parts if visible(p[0]) in told[name]) for name in told}
    assert set("".join(told)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-./")
    for name, texts in {"index.html": STRINGS, "promise.html": STRINGS[:1], **expected}.items():
        tab.open(tmp_path / "site" / name)
        press(tab, "document.querySelectorAll('details').forEach(e => { e.open = true; })")
        text = tab.run("new Promise(go => setTimeout(() => go(document.body.textContent), 100))")
        assert (tab.dialogs, tab.errors) == ([], []), name
        assert [r for r in tab.requests if not r.startswith(f"file://{tmp_path}/")] == []
        assert [hostile for hostile in texts if visible(hostile) not in text] == []
