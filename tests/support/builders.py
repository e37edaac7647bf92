"""Small makers of test data."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from msgspec import Struct, structs

from edit_harness import Case, Choose, Probe, Request, Scores
from edit_harness.folder.log import encoded
from edit_harness.folder.manifest import Identity, Manifest, ModelInfo, as_json, decoded
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFact

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("EDIT_HARNESS_SHARED") or ROOT.parent / "shared" / "data")
"""Where the genuine data of third parties are, if anywhere."""

REQUEST = Request("{} lives in", "Ada", "Paris", "Rome")

IDENTITY = decoded(
    {
        "schema": 4, "metrics": [], "judge": None, "regime": {}, "together": "", "seed": 0, "code": [],
        "editor": {"name": "none", "version": "1", "fields": {}, "provenance": {}},
        "task": {"name": "toy", "version": "1", "data": ""},
        "model": {"digest": "", "config": "", "tokenizer": "", "dtype": "float32"},
    },
    Identity,
)  # fmt: skip
"""A run that nobody has made."""
MANIFEST = Manifest(
    identity=IDENTITY, cases=[], label="none", metrics=[], visits=0, preset="", preview=None,
    model=ModelInfo(name="toy", path=""),
)  # fmt: skip


def replace(it, **changes):
    """Return a dataclass or a struct, such as a record, with other fields."""
    return (structs if isinstance(it, Struct) else dataclasses).replace(it, **changes)


def with_entries(manifest: Any, **changes: Any) -> Any:
    """Return a manifest, or a part of one, with other entries; those within an entry stay."""
    return decoded(_merged(as_json(manifest), changes), type(manifest))


def _merged(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return one | {key: _merged(one.get(key), value) for key, value in other.items()}


def scores(*candidates: Sequence[float], wrong: Sequence[int] = ()) -> Scores:
    """Answer with the given probability for each token of each candidate.

    Every token is the argmax, save the last one of the candidates in ``wrong``.
    """
    tokens = tuple(tuple(range(len(probs))) for probs in candidates)
    argmax = [list(ids) for ids in tokens]
    for candidate in wrong:
        argmax[candidate][-1] = 99
    logprobs = tuple(tuple(math.log(p) for p in probs) for probs in candidates)
    return Scores(tokens, logprobs, tuple(map(tuple, argmax)))


def case(*probes: Probe) -> Case:
    return Case("0", (REQUEST,), probes)


def record(case_id: Any = 0, **rewrite: Any) -> dict[str, Any]:
    """Return a record as in CounterFact, of invented facts."""
    facts = {
        "prompt": "{} lives in",
        "subject": "Ada",
        "relation_id": "P551",
        "target_new": {"str": "Paris", "id": "Q90"},
        "target_true": {"str": "Rome", "id": "Q220"},
    }
    return {
        "case_id": case_id,
        "requested_rewrite": facts | rewrite,
        "paraphrase_prompts": ["It rains. Ada dwells in", "Snow fell. The home of Ada is"],
        "neighborhood_prompts": [f"Neighbour {i} lives in" for i in range(10)],
        "attribute_prompts": ["Marie lives in"],
        "generation_prompts": ["Ada goes to work by"],
    }


def flat(own: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a record of CounterFact as EasyEdit's counterfact-edit.json has it."""
    edit, true = own["requested_rewrite"], own["requested_rewrite"]["target_true"]["str"]
    prompt, near = edit["prompt"].replace("{}", edit["subject"]), own["neighborhood_prompts"][0]
    return {
        "case_id": own["case_id"], "prompt": prompt, "target_new": edit["target_new"]["str"],
        "subject": edit["subject"], "ground_truth": true, "rephrase_prompt": own["paraphrase_prompts"][0],
        "locality_prompt": near, "locality_ground_truth": true,
    } | fields  # fmt: skip


SNIPPETS = [
    {
        "relation_id": "P551",
        "target_id": "Q90",
        "samples": [
            {"name": "Marie", "text": "Marie lives in the city of Paris."},
            {"name": "Ann", "text": "Ann is of Paris."},
        ],
    },
    {"relation_id": "P551", "target_id": "Q220", "samples": [{"name": "Leo", "text": "Rome"}]},
]
"""Reference texts on the objects of `record`, as in attribute_snippets.json."""


def with_texts(folder: Path, count: int, **settings: Any) -> CounterFact:
    """Return CounterFact on stored records and reference texts."""
    records = [record(i, subject=f"Ada {i}") for i in range(count)]
    for name, data in (("facts.json", records), ("snippets.json", SNIPPETS)):
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    paths = {"data": str(folder / "facts.json"), "references": str(folder / "snippets.json")}
    return CounterFact(**{**paths, **settings})


def stored(folder: Path, *records: Any, name: str = "facts.json") -> str:
    """Write records to a file, and return its path."""
    (folder / name).write_text(json.dumps(records), encoding="utf-8")
    return str(folder / name)


def people(folder: Path, names: Sequence[str], name: str = "facts.json") -> str:
    """Write records of the named, and return the file's path."""
    return stored(folder, *(record(i, subject=own) for i, own in enumerate(names)), name=name)


def cases(count: int) -> list[Case]:
    """Return so many cases of one fact."""
    probe = Probe("efficacy", Choose(REQUEST.text, (REQUEST.target_new, REQUEST.target_true)))
    return [Case(str(i), (REQUEST,), (probe,)) for i in range(count)]


def question(**fields: Any) -> dict[str, Any]:
    """Return a record as in zsRE, of invented facts."""
    facts = {
        "subject": "Ada",
        "src": "Where does Ada live?",
        "rephrase": "In which city is the home of Ada?",
        "alt": "Paris",
        "answers": ["Rome", "Roma"],
        "loc": "nq question: who wrote the tower",
        "loc_ans": "Bob Fiat",
    }
    return facts | fields


EDITOR = """
from edit_harness import Editor, hookimpl

class Nothing(Editor):
    def edit(self, model, requests): ...

@hookimpl
def edit_harness_register_editors(register):
    register("nothing", Nothing, "Does nothing")
"""
"""A plugin in one file."""
QUIZ = """
from edit_harness import Task, hookimpl

class Quiz(Task):
    def cases(self):
        return []

@hookimpl
def edit_harness_register_tasks(register):
    register("quiz-night", Quiz, "Questions")
    register("lazy-quiz", f"{__name__}:Quiz")
"""
"""One whose second name is loaded when it is asked for."""


def distribution(
    folder: Path, name: str, source: str, *, version: str = "1.0", entry: str = "plugin"
) -> str:
    """Write an installed package with one plugin module into a folder; return the module's name."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True)
    files: Mapping[str, str] = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "entry_points.txt": f"[edit_harness]\n{entry} = {module}\n",
    }
    for file, text in files.items():
        (info / file).write_text(text, encoding="utf-8")
    return module


class _Typed(SourceLoader):
    """Code that was typed, as into a notebook."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_filename(self, fullname: str) -> str:
        return "<cell>"

    def get_data(self, path: str) -> bytes:
        return self.text.encode()


def in_memory(text: str) -> ModuleType:
    """Run code as a notebook does: its module has no file, and no other can import it."""
    module = ModuleType("no_file_has_it")
    _Typed(text).exec_module(module)
    return module


def rewrite(samples: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a log anew, with numbers and checksums that fit."""
    content = [{k: v for k, v in row.items() if k not in ("v", "seq", "fp", "crc")} for row in rows]
    lines = (encoded(seq, rows[0]["fp"], row) for seq, row in enumerate(content))
    samples.write_bytes(b"".join(lines))


@contextmanager
def recording(module, rows):
    """What goes into a module and comes out of it in a pass, with their gradients' history."""
    from edit_harness.model.hooks import changing

    seen = SimpleNamespace()
    with changing(module, rows, lambda *given: seen.__init__(inputs=given[0], outputs=given[1])):
        yield seen
