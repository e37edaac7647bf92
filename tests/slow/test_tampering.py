"""Cheats on a bundle, each with the check that finds it; and those that are found by a replay, or not."""

import copy
import json
import math
from dataclasses import asdict

import pytest
from support.bundles import CASES, archive_of, honest, line, plugins, report, sums

import edit_harness as eh
from edit_harness.files import dumps
from edit_harness.registry.settings import settings
from edit_harness.run.assembly import make_editor
from edit_harness_plugins.commands.leaderboard import replay
from edit_harness_plugins.commands.leaderboard.bundle import Draw


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    return honest(tmp_path_factory.mktemp("honest"))


# How to cheat


def place(forged, path):
    """Return what holds the end of a path such as ``rows.4.status``, and that end."""
    *parts, last = (int(part) if part.isdigit() else part for part in path.split("."))
    found = forged
    for part in parts:
        found = getattr(found, part) if found is forged else found[part]
    return found, last


def put(path, value, *then, **changes):
    """Put a value at a path, or what a function makes of the old one; then what follows from it."""

    def cheat(forged):
        holder, last = place(forged, path)
        holder[last] = value(holder[last]) if callable(value) else value
        for step in then:
            getattr(forged, step)(**changes)

    return cheat


def drop(path, *then):
    def cheat(forged):
        holder, last = place(forged, path)
        del holder[last]
        for step in then:
            getattr(forged, step)()

    return cheat


def identity(path, value):
    """Change what the run depends on, and the fingerprint with it."""
    return put(f"manifest.identity.{path}", value, "identify")


def results(path, value):
    """Change the results, or what they follow from, but no values."""
    return put(path, value, "recompute", valued=False)


def both(*cheats):
    def cheat(forged):
        for one in cheats:
            one(forged)

    return cheat


def more(**changes):
    """Append a row that is like the third."""
    return lambda f: f.rows.append({**copy.deepcopy(f.rows[2]), "seq": len(f.rows), **changes})


def answers(change, side="after"):
    """Change all scores of some rows by a function, and let everything follow."""

    def cheat(forged):
        for row in forged.rows:
            for answer in row[side]:
                if isinstance(answer, dict):
                    change(answer)
        forged.recompute()

    return cheat


def drifts(row):
    return [answer for answer in row["after"] if isinstance(answer, list)]


# Members as bytes, with nothing mended that depends on them


def letter(name, old, new):
    return lambda members: members.update({name: members[name].replace(old, new, 1)})


def without(name):
    return lambda members: members.pop(name)


def sums_without_rows(members):
    lines = members["SHA256SUMS"].splitlines(keepends=True)
    members["SHA256SUMS"] = b"".join(text for text in lines if b"samples" not in text)


LABEL = letter("manifest.json", b'"label": "rome"', b'"label": "mine"')
LEVEL = letter("results.json", b'"level": 0.99', b'"level": 0.95')
PROMPT = letter("cases.jsonl", b"language", b"tongue")
MESSAGE = letter("samples.jsonl", b'"message": ""', b'"message": " "')
CARELESS = {
    "a number of the results": (LEVEL, "0.3"),
    "a prompt": (PROMPT, "0.3"),
    "no samples.jsonl": (without("samples.jsonl"), "0.1"),
    "no checksums": (without("SHA256SUMS"), "0.1"),
    "checksums without the rows": (sums_without_rows, "0.3"),
}
SUMS_MENDED = {
    "a manifest with another sha256": (LABEL, "0.4"),
    "results with another sha256": (LEVEL, "0.4"),
    "cases that the manifest does not name": (PROMPT, "0.4"),
    "rows that the results are not of": (MESSAGE, "0.4"),
}
"""The checksums of files are mended, the digests inside not."""


# Everything that is a digest mended, but for what the cheat is about


def stale_checksum(forged):
    rows = [line(row) for row in forged.rows]
    rows[3] = rows[3].replace(b'"message": ""', b'"message": " "')
    forged.raw["samples.jsonl"] = b"".join(rows)


def dropped_case(forged):
    for part in (forged.cases, forged.rows, forged.manifest["cases"]):
        del part[4]
    forged.manifest["visits"] -= 1
    forged.number()


def replaced_case(forged):
    forged.cases[4] = {**forged.cases[3], "id": "4"}
    forged.rows[4].update({k: forged.rows[3][k] for k in ("before", "after", "values")})


def case_of_ones_own(forged):
    forged.cases.append({**forged.cases[3], "id": "mine"})
    forged.manifest["cases"].append("mine")
    forged.manifest["visits"] += 1
    more(case="mine")(forged)


def reordered(forged):
    forged.cases.reverse()
    forged.manifest["cases"].reverse()


def fewer_metrics(forged):
    for metrics in (forged.manifest["metrics"], forged.manifest["identity"]["metrics"]):
        metrics.remove("accuracy")
    for row in forged.rows:
        del row["values"]["accuracy"]
    forged.identify()
    forged.recompute(valued=False)


def nothing_before(forged):
    for row in forged.rows:
        row["before"] = []
    forged.recompute(valued=False)


def shifted(answer):
    answer["logprobs"] = [[part - 0.01 for part in one] for one in answer["logprobs"]]


def next_tokens(likeliest):
    return [[token + 1 for token in one] for one in likeliest]


def drift(change):
    """Change the first divergence of a case, and nothing that follows from it."""

    def cheat(forged):
        found = drifts(forged.rows[4])[0]
        found[0] = change(found[0])
        forged.recompute(valued=False)

    return cheat


EFFICACY = "rows.4.after.0"
SHARD = {
    "number": 1, "of": 2, "cases": [], "cases_digest": "", "planned": CASES, "spans": [[0, CASES]],
    "visits": [[str(case), 1] for case in range(CASES)],
}  # fmt: skip
PREVIEW = {"precision": "half", "floor": 0.0, "largest": 0.0}
MANIFEST = {
    "distributions that are none": put("manifest.distributions", 5),
    "a distribution that is none": put("manifest.distributions", [5]),
    "an editor without fields": drop("manifest.identity.editor.fields", "identify"),
    "an editor with a number for fields": identity("editor.fields", 5),
    "a judge without a version": put("manifest.judged_by", {"name": "match"}),
    "a seed below 0": identity("seed", -1),
    "a regime that there is not": identity("regime.mode", "at leisure"),
    "a shard": put("manifest.shard", SHARD),
    "no identity": drop("manifest.identity"),
    "a fingerprint of one's own": put("manifest.fingerprint", "0" * 64),
    "a contact without end": put("submission.contact", "x" * 1001),
    "no contact": drop("submission.contact"),
    "a field of one's own": put("submission.score", "1.0"),
    "a submission of another run": put("submission.fingerprint", "0" * 64),
}
"""What has the wrong form, or is of another run; all is found by check 0.4."""
ROWS = {
    "a row with a field of its own": (put("rows.2.zeal", 1), "1.2"),
    "a row of another run": (put("rows.5.fp", "0" * 12), "1.2"),
    "a row with a stale checksum": (stale_checksum, "1.2"),
    "a row cut out": (drop("rows.4"), "1.2"),
    "a good case tried again": (more(**{"try": 2}), "1.2"),
    "a try that is not shown": (
        both(put("rows.2.status", "oom"), more(**{"try": 3, "status": "ok"})), "1.2"),
    "a preview": (put("manifest.preview", PREVIEW), "1.3"),
    "a row dropped, the others renumbered": (drop("rows.4", "number"), "1.5"),
    "a row of an unknown case": (more(case="x"), "1.5"),
    "another number of visits": (put("manifest.visits", CASES - 1), "1.5"),
    "a hard case told as invalid": (
        both(put("rows.4.status", "invalid_case"), put("rows.4.values", {}, "recompute")), "1.6"),
    "a status that there is not": (results("rows.4.status", "skipped"), "1.6"),
}  # fmt: skip
CHOSEN = {
    "a case left out": dropped_case,
    "a hard case replaced by a copy of an easy one": replaced_case,
    "a case of one's own": case_of_ones_own,
    "an easier prompt": put("cases.4.probes.0.query.prompt", "The answer is always"),
    "an easier target": put("cases.4.requests.0.target_new", "the"),
    "cases in another order": reordered,
    "cases named in another order": put("manifest.cases", lambda names: names[::-1]),
}
"""Other cases than the task's; all is found by check 1.4."""
CLAIMED = {
    "a failure kept quiet": both(
        put("rows.4.status", "edit_failed", "recompute"), put("results.failed", {})
    ),
    "a point more": put("results.results.post_ES,single", lambda v: v + 0.01),
    "a billionth more, twice over": put("results.results.post_NS,single", lambda v: v + 4e-9),
    "a number that no metric has": put("results.results.post_ES2,single", 1.0),
    "a number kept quiet": drop("results.results.post_NS,single"),
    "fewer no-ops": put("results.noop", -1),
    "another level of confidence": put("results.level", 0.999),
}
"""Results that don't follow from the rows; all is found by check 2.2."""
BEFORE = {
    "another tokenizer": identity("model.tokenizer", "0" * 64),
    "all before-values shifted": answers(shifted, "before"),
    "other tokens likeliest before": put("rows.4.before.0.argmax", next_tokens, "recompute"),
    "nothing answered before": nothing_before,
}
"""Another unedited model than the published one; all is found by check 2.4."""
ANSWERS = {
    "metrics left out": (fewer_metrics, "2.1"),
    "other metrics than identified": (put("manifest.metrics", ["success"]), "2.1"),
    "an answer fewer": (put("rows.4.after", lambda all: all[:-1]), "3.1"),
    "an answer of another kind": (put(EFFICACY, {"text": "certainly"}), "3.1"),
    "more log-probabilities than tokens": (
        put(f"{EFFICACY}.logprobs.0", lambda parts: [*parts, -0.1]), "3.1"),
    "a probability above 1": (put(f"{EFFICACY}.logprobs.0.0", 0.1, "recompute"), "3.1"),
    "a negative divergence": (drift(lambda v: -0.01), "3.1"),
    "better values, results that follow": (
        results("rows.4.values.success", lambda v: {**v, "post_ES": 1.0, "post_NS": 1.0}), "3.4"),
    "better answers, values of old": (drift(lambda v: v / 2), "3.4"),
    "NaN that is well": (drift(lambda v: None), "3.5"),
    "well, and told as NaN": (put("rows.4.status", "nonfinite", "recompute"), "3.5"),
    "a no-op that is none": (put("rows.4.noop", True, "recompute"), "3.5"),
}  # fmt: skip
FOUND = {"0.4": MANIFEST, "1.4": CHOSEN, "2.2": CLAIMED, "2.4": BEFORE}
CAREFUL = {
    **ROWS,
    **ANSWERS,
    **{name: (cheat, check) for check, all in FOUND.items() for name, cheat in all.items()},
}


def replayed(evidence, number, model="pocket"):
    return replay.replayed(evidence, Draw(beacon="beacon", number=number, model=model))


def failed(found):
    return [finding.check for finding in found.having("failed")]


@pytest.mark.parametrize("name", [*CARELESS, *SUMS_MENDED])
def test_a_cheat_that_mends_no_digests_or_only_the_checksums(name, bundled, tmp_path):
    cheat, check = {**CARELESS, **SUMS_MENDED}[name]
    forged, baseline, _ = bundled
    members = forged.members()
    before = {**members, "SHA256SUMS": sums(members)}
    cheat(members := dict(before))
    assert members != before
    if name in SUMS_MENDED:
        del members["SHA256SUMS"]
        members["SHA256SUMS"] = sums(members)
    found, _ = report(tmp_path, archive_of(tmp_path / "bundle.zip", members), baseline)
    assert failed(found) == [check]


@pytest.mark.parametrize("name", CAREFUL)
def test_a_cheat_that_mends_all_digests(name, bundled, tmp_path):
    cheat, check = CAREFUL[name]
    honest_one, baseline, _ = bundled
    forged = honest_one.copy()
    cheat(forged)
    assert forged.members() != honest_one.members()
    found, _ = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), baseline)
    assert failed(found)[:1] == [check], found.findings
    assert all(finding.text for finding in found.having("failed"))


UNKNOWN = {
    "another version of the task": identity("task.version", "9"),
    "other data": identity("task.data", "0" * 64),
    "another task": identity("task.name", "mine"),
    "another model": identity("model.digest", "0" * 64),
    "another dtype": identity("model.dtype", "bfloat16"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_published_is_never_passed(name, bundled, tmp_path):
    forged = bundled[0].copy()
    UNKNOWN[name](forged)
    found, _ = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), bundled[1])
    assert "1.3" in [finding.check for finding in found.having("unchecked")]
    assert not found.good
    assert found.reached <= 0


# What no check of one bundle can tell from an honest run: docs/concepts/leaderboard.md lists them


def still(forged):
    for row in forged.rows:
        row["after"], row["noop"] = row["before"], True
    forged.recompute()


def consistent(forged):
    """Everything that follows from better log-probabilities follows."""
    for row in forged.rows:
        row["after"][0]["logprobs"][0][0] -= 0.0123
        drifts(row)[0][0] *= 0.5
    forged.recompute()


def as_memit(forged):
    """The answers of ROME under all that identifies MEMIT."""
    model = eh.load_model("pocket")
    made, _ = make_editor(plugins(), model, "memit", {}, 0)
    said = {"fields": settings(made.value), "provenance": dict(made.value.provenance)}
    forged.manifest["identity"]["editor"] |= json.loads(dumps({"name": "memit", **said}))
    forged.manifest["label"] = forged.submission["editor"] = "memit"
    forged.identify()
    forged.recompute()


TEXT = {"tokens": [[5, 6]], "logprobs": [[-2.0, -1.0]], "argmax": [[5, 6]]}


def as_sequence(forged):
    """Single edits as the end of a sequence, with the row of the text that a sequence has."""
    regime = asdict(eh.Regime("sequential"))
    forged.manifest["identity"] |= {"regime": {**regime, "checkpoints": []}, "together": "0" * 64}
    forged.manifest["visits"] += 1
    for row in forged.rows:
        row["state"] = CASES
    after = [{**TEXT, "logprobs": [[-2.0, -1.01]]}]
    more(case="control:text", state=CASES, values={}, before=[TEXT], after=after)(forged)
    forged.identify()
    forged.recompute()


def withdrawn(forged):
    first = forged.rows[0]
    row = {"v": 4, "seq": 1, "fp": first["fp"], "withdraws": [0, 0], "why": "a leak"}
    forged.rows[1:1] = [row, copy.deepcopy(first)]
    forged.number()


REPLAYED = {
    "better answers, all that follows": consistent,
    "edits that change nothing": still,
    "a failure that was none": put("rows.4.status", "edit_failed", "recompute"),
    "another editor's name and settings": as_memit,
    "single edits told as a sequence": as_sequence,
    "answers under other settings": identity("editor.fields.steps", 3),
}
"""What a replay finds, if it draws one of the cases."""
NEVER = {
    "a false word on tuning": put("submission.tuned_on", "nothing, truly"),
    "another try": both(put("rows.2.status", "oom"), more(**{"try": 2, "status": "ok"})),
    "withdrawn rows": withdrawn,
    "another's name": put("submission.contact", "somebody.else@example.org"),
}
"""What nothing finds: it is no number of the board, or it is what happened before the run that is shown."""


@pytest.mark.parametrize("name", [*REPLAYED, *NEVER])
def test_what_only_a_replay_finds_or_nothing(name, bundled, tmp_path):
    forged = bundled[0].copy()
    {**REPLAYED, **NEVER}[name](forged)
    found, evidence = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), bundled[1])
    assert not found.having("failed"), found.findings
    if name in REPLAYED:
        evidence.digests["SHA256SUMS"] = found.digest
        findings, tally = replayed(evidence, CASES, "pocket")
        assert tally["cases"] == tally["of"] == CASES
        assert tally["others"]
        assert "failed" in {finding.outcome for finding in findings}


def test_an_honest_bundle_passes_and_a_replay_agrees(bundled, tmp_path):
    forged, baseline, _ = bundled
    found, evidence = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), baseline)
    assert found.good, found.findings
    assert found.reached == 3
    findings, tally = replayed(evidence, 5)
    assert [finding.outcome for finding in findings] == ["passed"]
    assert (tally["cases"], tally["agree"], tally["of"]) == (5, 5, CASES)


def test_controls_are_rows_of_the_plan(tmp_path):
    """A bundle with them passes; a control's row that is left out is missed."""
    asked = {"controls": ["text"], "control_args": {"sample": 3}}
    made, baseline, _ = honest(tmp_path, **asked)
    (tmp_path / "whole").mkdir()
    found, evidence = report(tmp_path / "whole", made.archive(tmp_path / "good.zip"), baseline)
    assert len(evidence.controls) == 3
    whole = [str(each) for each in found.having("failed")]
    made.rows.pop()
    (tmp_path / "part").mkdir()
    found, _ = report(tmp_path / "part", made.archive(tmp_path / "bad.zip"), baseline)
    assert whole == []
    assert "1 of 15 visits have no row that counts" in str(found.having("failed"))


def better_perplexity(rows):
    """After the edits the text is as likely as before, but for what tells it from a no-op."""
    for row in rows:
        row["after"] = copy.deepcopy(row["before"])
        row["after"][0]["logprobs"][0][0] -= 0.01


def more_likeliest(rows):
    rows[0]["after"][0]["argmax"][0].append(7)


def no_control(rows):
    for row in rows:
        row.update(status="invalid_case", after=[])


def with_values(rows):
    rows[0]["values"] = {"success": {"post_ES": 1.0}}


def impossible_text(rows):
    rows[0]["after"][0]["logprobs"][0][0] = 0.5


def without_change(rows):
    for row in rows:
        row["after"] = copy.deepcopy(row["before"])


CONTROLS = {
    "told as invalid": (no_control, "1.6"),
    "more likeliest tokens than tokens": (more_likeliest, "3.1"),
    "a probability above 1": (impossible_text, "3.1"),
    "values that it has not": (with_values, "3.4"),
    "no change, and told as one": (without_change, "3.5"),
    "a better perplexity": (better_perplexity, "4.1"),
}
REGIMES = {
    "single": {"controls": ["text"], "control_args": {"sample": 3}},
    "sequential": {"regime": eh.Regime("sequential", 4, checkpoints=(4,))},
}


@pytest.fixture(scope="module", params=REGIMES)
def controlled(request, tmp_path_factory):
    """An honest bundle whose controls have rows."""
    return honest(tmp_path_factory.mktemp(request.param), **REGIMES[request.param])


@pytest.mark.parametrize("name", [*CONTROLS, "nothing"])
def test_controls_are_verified_like_cases(name, controlled, tmp_path):
    """Item 23 of issue I: a forged perplexity passed every level."""
    cheat, check = CONTROLS.get(name, (lambda rows: None, ""))
    forged = controlled[0].copy()
    rows = [row for row in forged.rows if row["case"] == "control:text"]
    assert len(rows) in (2, 3)
    cheat(rows)
    forged.recompute(valued=False)
    found, evidence = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), controlled[1])
    if check in ("4.1", ""):
        assert found.good, found.findings
        evidence.digests["SHA256SUMS"] = found.digest
        # All are drawn: of one edit the text may hardly become less likely, and nothing is forged there.
        findings, tally = replayed(evidence, 3, "pocket")
        assert len(tally["controls"]) == min(len(rows), 3)
        assert {each.outcome for each in findings} == ({"failed"} if check else {"passed"})
    else:
        assert failed(found)[:1] == [check], found.findings


WITHIN = 2e-4
"""Nats by which every token's log-probability can be improved, so that no value tells."""


def test_what_is_within_the_tolerance_of_a_replay_is_not_found(bundled, tmp_path):
    """Item 26 of issue I: and no number moves by more than the tolerance, relatively."""
    forged = bundled[0].copy()
    for row in forged.rows:
        for answer in row["after"]:
            if isinstance(answer, dict):
                first, second = answer["logprobs"]
                answer["logprobs"] = [[min(part + WITHIN, 0.0) for part in first],
                                      [part - WITHIN for part in second]]  # fmt: skip
            else:
                answer[:2] = [part * (1 - WITHIN) for part in answer[:2]]
    forged.recompute()
    assert forged.results != bundled[0].results
    found, evidence = report(tmp_path, forged.archive(tmp_path / "bundle.zip"), bundled[1])
    assert found.good
    evidence.digests["SHA256SUMS"] = found.digest
    findings, _ = replayed(evidence, CASES, "pocket")
    assert [finding.outcome for finding in findings] == ["passed"]
    old, new = (each.results["results"] for each in (bundled[0], forged))
    assert old["post_ES,single"] == new["post_ES,single"]
    assert all(
        math.isclose(new[k], old[k], rel_tol=1e-3, abs_tol=1e-3) for k in old if "_n," not in k
    )
