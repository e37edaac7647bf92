"""Two texts on one subject, before and after an edit, from the model to the stored verdict."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from support.judge_keys import ABOUT, ASPECTS
from support.judge_server import blocks, serving

import edit_harness as eh
from edit_harness.folder.encoding import decode_answer
from edit_harness.testing.tiny import tiny_model


@dataclass
class Descriptions(eh.Task):
    """Describes one subject, three times."""

    judge: ClassVar[str] = "openai"
    metrics: ClassVar[tuple[str, ...]] = ("fluency",)

    def cases(self):
        query = eh.Generate("Ada is", top_k=5, max_tokens=20, to_the_end=True)
        probes = [
            eh.Probe("description", eh.Generate(query.prompt, top_k=5, max_tokens=20,
                     to_the_end=True, seed=seed), key=eh.Key("compare", about=ABOUT))
            for seed in range(3)
        ]  # fmt: skip
        yield eh.Case("0", (eh.Request("{} is", "Ada", "female", "male"),), tuple(probes))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    with serving() as server:
        run = eh.evaluate(
            "ft-l", Descriptions(), tiny_model(),
            editor_args={"layer": 0, "steps": 2, "lr": 0.5, "epsilon": 1.0},
            judge_args={"model": "judge", "url": server.url, "twice": 1.0},
            output=tmp_path / "out",
        )  # fmt: skip
        yield run, server


def test_a_pair_is_judged_once_with_the_text_before_it(run):
    run, server = run
    (record,) = run.records
    before, after = ([decode_answer(a) for a in side] for side in (record.before, record.after))
    assert [text.verdict for text in before] == [None] * 3
    asked = [set(blocks(body["messages"][0]["content"]).values()) for body in server.asked]
    for old, new in zip(before, after, strict=True):
        verdict = new.verdict
        assert (verdict.status, verdict.swapped, verdict.served) == ("decided", False, "judge-1")
        assert verdict.ratings == dict.fromkeys(ASPECTS, 0.0), "neither text has the words"
        assert verdict.score == float("female" in new.text)
        assert {f"Ada is{old.text}", f"Ada is{new.text}"} in asked
    assert run.served == ["judge-1"]
    assert run.pending == 0
