"""What the pages of runs and of the leaderboard do in a browser."""

import json

import pytest
from support.browser import browser
from support.builders import replace
from support.page_runs import (
    ELSEWHERE,
    PAYLOADS,
    STRINGS,
    altered,
    copies,
    of_editor,
    small,
    spoilt,
)

import edit_harness as eh
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
    tab.scripts(False)
    tab.open(written(tmp_path, page.explore([base, many], "Plain")))
    tab.scripts(True)
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


def test_a_search_looks_into_texts_alone(base, tab, tmp_path):
    opened = tab.open(written(tmp_path, page.explore([base], "one")))
    for text, expected in (("null", 0), ("status", 0), ("danielle", 1)):
        opened.run(f"document.getElementById('text').value = '{text}'")
        opened.run("document.getElementById('filters').dispatchEvent(new Event('input'))")
        assert opened.run("document.querySelectorAll('#cases .case').length") == expected, text


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


def press(tab, script):
    tab.run(f"(() => {{ {script}; }})()")


def pick(tab, name, value):
    press(tab, f"const e = document.querySelector('#board-filters [name={name}]'); "
               f"e.value = {value!r}; e.dispatchEvent(new Event('input', {{bubbles: true}}))")  # fmt: skip


def test_the_index_is_sorted_and_filtered(tab, site):
    tab.open(site / "index.html")
    assert tab.run("document.getElementById('shown').textContent") == "5 of 5 entries"
    heads = tab.run("[...document.querySelectorAll('table.board')].at(-1).tHead.innerText")
    assert "ES" in heads
    rows = f"{SHOWN}.filter(name => name !== 'half')"
    column = "[...document.querySelectorAll('table.board')].find(t => t.rows.length > 2)"
    button = (
        f"[...{column}.tHead.querySelectorAll('button')].find(b => b.textContent.startsWith('ES'))"
    )
    press(tab, f"{button}.click()")
    assert tab.run(rows)[0] == "bold"
    assert tab.run(rows)[-1] == "weak"
    press(tab, f"{button}.focus()")
    tab.key("Enter")
    assert tab.run(rows)[0] == "weak"

    pick(tab, "badge", "replayed")
    assert sorted(tab.run(SHOWN)) == ["bold", "half", "tied"]
    pick(tab, "badge", "")
    pick(tab, "editor", "half")
    assert tab.run(SHOWN) == ["half"]
    assert tab.run("document.querySelectorAll('section.board:not([hidden])').length") == 1
    press(tab, "document.querySelector('#board-filters button').click()")
    tab.run("new Promise(go => setTimeout(go, 50))")
    assert len(tab.run(SHOWN)) == 5
    press(tab, "document.querySelector('#board-filters [type=checkbox]').click()")
    assert "mild" not in tab.run(SHOWN)
    press(tab, "const e = document.querySelector('#board-filters [type=search]'); "
               "e.value = 'Nothing'; e.dispatchEvent(new Event('input', {bubbles: true}))")  # fmt: skip
    assert tab.run("document.getElementById('shown').textContent").startswith("No entry is like")
    assert (tab.errors, tab.dialogs) == ([], [])


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_do_not_widen_the_page(tab, base, tmp_path, width):
    long = of_editor(base, "W" * 100, 1, 1)
    long = altered(long, long.cases, list(long.records), model={"name": "M" * 100})
    write([entry(long)], [], tmp_path / "site", "x")
    for path in [tmp_path / "site" / "index.html", *(tmp_path / "site" / "runs").iterdir()]:
        tab.open(path, width)
        assert tab.run("document.documentElement.scrollWidth <= innerWidth"), path


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_their_width_and_can_be_read_in_both_colours(tab, site, width, dark):
    """The colours of text and of what is behind it are at least 4.5 to 1 apart."""
    for path in [site / "index.html", site / "promise.html", *(site / "runs").glob("weak-*")]:
        tab.open(path, width, dark=dark)
        assert tab.run("document.documentElement.scrollWidth <= innerWidth"), path
        assert tab.run(CONTRAST) == [], path


CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = colour => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = e => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] === 255) return rgb(c); } };
    const bad = [];
    for (const e of document.querySelectorAll('main *, nav *, footer *')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.checkVisibility() || e.closest('svg, button:disabled')) continue;
        const pair = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (ratio < 4.5) bad.push(`${e.className} ${e.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    return [...new Set(bad)];
})()"""


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
