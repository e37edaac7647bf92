"""The leaderboard's site: what stands in which table, what may be best, and what a browser does with it."""

import json
from pathlib import Path

import pytest
from support.browser import browser
from support.builders import replace
from support.page_runs import STRINGS, altered, small, spoilt

from edit_harness.errors import ResourceError, UsageError
from edit_harness.run import report
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.leaderboard.build import Entry, write
from edit_harness_plugins.commands.report.page import Entrant, boards_of
from edit_harness_plugins.commands.report.templates import visible

SUBMISSION = {"contact": "ada@example.org", "licence": "CC-BY-4.0", "tuned_on": "none"}
LEVELS = {"weak": (0.2, 0.3), "bold": (0.9, 0.4), "mild": (0.5, 0.8), "tied": (0.5, 0.8)}
"""Efficacy and specificity by editor."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return small(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def editors(base):
    return {name: editor(base, name, *levels) for name, levels in LEVELS.items()}


def editor(base, label, efficacy, specificity, **identity):
    """Return a run whose measures have given values in every case."""

    def of(record):
        found = {"post_ES": efficacy, "post_NS": specificity}
        return replace(record, values={"success": {**record.values["success"], **found}})

    rows, mark = [of(record) for record in base.records], f"of {label} {identity}"
    return altered(base, base.cases, rows, label=label, fingerprint=mark, identity=identity)


def as_before(values):
    """Return a metric's values with those before the edit after it, too."""
    return {k: values.get(k.replace("post_", "pre_"), v) for k, v in values.items()}


def entry(run, badge="replayed 300/300", **submission):
    return Entry.of(run, {**SUBMISSION, **submission}, badge)


def entries(editors, *badges):
    return [entry(run, badge) for run, badge in zip(editors.values(), badges, strict=False)]


def files(folder: Path):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


# --- tables ------------------------------------------------------------------------------------------


def test_what_another_protocol_measured_stands_in_another_table(base, editors):
    others = [
        editor(base, "half", 1, 1, model={"dtype": "float16"}),
        editor(base, "newer", 1, 1, task={"version": "0.2"}),
        editor(base, "batch", 1, 1, regime={"mode": "batch", "size": 2}),
        editor(base, "elsewhere", 1, 1, task={"data": "another"}),
    ]
    found = boards_of([Entrant(run, "") for run in [*editors.values(), *others]])
    assert sorted(len(board.rows) for board in found) == [1, 1, 1, 1, 4]


def test_the_best_is_marked_where_a_test_finds_another_worse_that_competes_and_was_checked(base):
    badges = ("reproduced", "recomputed", "replayed 300/300", "replayed 300/300")
    cases = [replace(base.cases[0], id=f"c{i}") for i in range(40)]
    many = altered(base, cases, [replace(base.records[0], case=case.id) for case in cases])
    runs = [editor(many, name, *levels) for name, levels in LEVELS.items()]
    by_badge = [Entrant(run, "", b) for run, b in zip(runs, badges, strict=True)]
    (board,) = boards_of(by_badge)
    best = {row.run.label: board.is_best(row, "ES") for row in board.rows}
    assert best == {"weak": False, "bold": False, "mild": True, "tied": True}
    for some in (by_badge[:1], by_badge[2:]):
        (alike,) = boards_of(some)
        assert not any(alike.is_best(row, name) for row in some for name in row.lines)


def test_what_so_few_cases_may_show_by_chance_is_not_marked(editors):
    (board,) = boards_of([Entrant(run, "") for run in editors.values()])
    assert not any(board.is_best(row, "ES") for row in board.rows)


def test_rows_are_sorted_by_score(editors):
    (board,) = boards_of([Entrant(run, "") for run in editors.values()])
    scores = [row.run.estimates[f"post_{board.score}"].value for row in board.rows]
    assert board.score == "S"
    assert scores == sorted(scores, reverse=True)
    assert len({*scores}) > 2


def test_the_unedited_model_comes_first_and_is_never_best(base, editors):
    quiet = editor(base, "zero", 1.0, 1.0)
    quiet.everything = [
        replace(r, noop=True, values={m: as_before(v) for m, v in r.values.items()})
        for r in quiet.everything
    ]
    (board,) = boards_of([Entrant(run, "") for run in [*editors.values(), quiet]])
    assert board.rows[0].run is quiet
    assert not any(board.is_best(board.rows[0], name) for name in board.rows[0].lines)


# --- the folder ----------------------------------------------------------------------------------------


def test_the_same_entries_give_the_same_bytes_in_any_order(editors, tmp_path):
    some = entries(editors, "recomputed", "reproduced", "replayed 1/2", "recomputed")
    write(some, [("b.zip", "y"), ("a.zip", "x")], tmp_path / "one", "Title")
    write(some[::-1], [("a.zip", "x"), ("b.zip", "y")], tmp_path / "two", "Title")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]


def test_a_site_is_replaced_as_a_whole_and_other_folders_are_not(editors, tmp_path, monkeypatch):
    site = tmp_path / "site"
    write(entries(editors, "recomputed", "recomputed"), [], site, "Old")
    write(entries(editors, "recomputed"), [], site, "New")
    assert len(list((site / "runs").iterdir())) == 1
    before = files(site)

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "write_text", full)
        with pytest.raises(ResourceError) as caught:
            write(entries(editors, "recomputed"), [], site, "Newer")
    assert str(caught.value) == (
        f"the site {site} cannot be written: No space left on device\n"
        "name another place: --out SITE"
    )
    assert files(site) == before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]
    (site / "thesis.tex").touch()
    with pytest.raises(UsageError, match=r"such as thesis\.tex") as told:
        write([], [], site, "Newest")
    assert told.value.remedy == "name a folder of its own: --out SITE"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        write([], [], tmp_path / "file", "x")


def test_a_site_without_entries_says_so(tmp_path):
    write([], [("bad.zip", "samples.jsonl: row 3 is damaged")], tmp_path / "site", "Empty")
    html = (tmp_path / "site" / "index.html").read_text()
    assert "No bundle has passed yet." in html
    assert "row 3 is damaged" in html


def test_models_are_told_apart_by_their_weights(base):
    model = {"digest": "0" * 64}
    runs = [editor(base, "one", 0.5, 0.5), editor(base, "two", 0.9, 0.9, model=model)]
    (board,) = boards_of([Entrant(run, "") for run in runs])
    assert len({row.model for row in board.rows}) == 1
    assert not any(board.is_best(row, name) for row in board.rows for name in row.lines)


def test_the_export_has_every_number(base, tmp_path):
    run = editor(base, "rome", 0.25, 0.75)
    write([entry(run)], [], tmp_path / "site", "x")
    data = json.loads((tmp_path / "site" / "results.json").read_text())
    assert data["entries"][0]["results"]["post_ES"]["value"] == 0.25
    assert Estimate(**data["entries"][0]["results"]["post_ES"]) == run.estimates["post_ES"]
    assert (tmp_path / "site" / data["entries"][0]["page"]).is_file()


def test_an_interval_stands_below_each_number(editors, tmp_path):
    write(entries(editors, "recomputed"), [], tmp_path / "site", "x")
    html = (tmp_path / "site" / "index.html").read_text()
    for line in editors["weak"].lines:
        if not line.measure.detail:
            assert f"<small>{report.interval(line.after, line)}</small>" in html


# --- in a browser ----------------------------------------------------------------------------------------

SHOWN = "[...document.querySelectorAll('tr[data-row]:not([hidden]) > th')].map(e => e.textContent.trim())"


@pytest.fixture
def site(base, editors, tmp_path):
    other = editor(base, "half", 1, 1, model={"dtype": "float16"})
    badges = ("reproduced", "replayed 299/300", "recomputed", "replayed 300/300")
    write([*entries(editors, *badges), entry(other)], [("x.zip", "no")], tmp_path / "site", "Board")
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
    long = editor(base, "W" * 100, 1, 1)
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
