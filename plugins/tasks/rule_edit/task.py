"""RULE-EDIT: write another rule of geometry, and ask for its formula, its words and its numbers.

After an anonymous submission whose data are not published: forms and measures are the paper's, the data ours
(README.md beside this module). A case is a rule. A judge reads the replies; nothing is read here, nor computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from edit_harness import Case, DataError, Generate, Key, Probe, Regime, Request, Task
from edit_harness.files import sha256_of
from edit_harness_plugins.inputs import file_at, refuse

from .._files import records as reading
from .._files.published import unusable
from .._files.records import Entry, Record
from .checks import Written, flaws, placed, problems, unknown

HERE = Path(__file__).parent
BUNDLED = {"paper": HERE / "rule_edit.json", "named": HERE / "rule_edit_named.json"}
"""Our own rules in each wording."""
NUMBER: Mapping[str, Any] = {"unit": "", "steps": False}
FORMS = {"formula": (64, "\n"), "description": (128, "\n"), "direct": (64, "\n"), "steps": (256, "\n\n")}  # fmt: skip
"""How many tokens replies of a kind have at most, and what ends them."""


@dataclass
class RuleEdit(Task):
    """Writes the formula of a rule, such as A = x + x for the area of a square.

    Asked for: the formula, rephrased too; the description; four instances; and the formulas of four
    other rules, which should stay as they are.
    """

    data: str = "bundled"
    """"bundled", or a .json or .jsonl file of records like the bundled ones."""
    dim: Literal["all", "2D", "3D"] = "all"
    """Rules of the plane, of space, or both; neighbours may be of the other."""

    wording: Literal["paper", "named"] = "paper"
    """How the bundled rules are asked: "A square has side length x. Its area ..." as in the paper, the
    figure being the subject, or "The area of a square with side length x ..."."""

    version: ClassVar[str] = "0.2"
    metrics = ("rule-answers", "rule-locality", "judging")
    judge = "symbolic"
    asks = (
        "Prompts are continued greedily, before the edit and after it alike: up to the end of the "
        "first line and 64 tokens for a formula or a number, 128 for a description; up to an empty "
        "line and 256 tokens for a worked solution. A judge reads the replies by the new rule and "
        "the old one; of other rules it is asked whether the reply says the same as before."
    )
    citation = (
        "RULE-EDIT (anonymous submission), Tables 4 and 5; its data are not published, and these "
        "are our own"
    )

    form: ClassVar[str] = "formula"
    """What is written: formula or description."""
    counts: ClassVar[str] = "80 rules, 44 of the plane and 36 of space, with 4 instances each"
    """What the bundled data have for this form."""

    def cases(self) -> Iterable[Case]:
        """Yield a case for every rule. Raises `DataError` if the file is not right."""
        for record in self._chosen():
            if problem := problems(self._entries[record["id"]], self._entries):
                yield unusable(record["id"], problem)
            else:
                tags = {name: record[name] for name in ("dim", "shape", "property")}
                yield Case(record["id"], self.requests(record), tuple(self.probes(record)), tags)

    def requests(self, record: Record) -> tuple[Request, ...]:
        """Return what is written."""
        target = "equation" if self.form == "formula" else self.form
        text, subject = record[f"{self.form}_prompt"], record["subject"]
        new, old = record[f"{target}_new"], record[target]
        return (Request(placed(text, subject)[0], subject, new, old),)

    def probes(self, record: Record) -> Iterator[Probe]:
        """Yield what is asked of a rule: the edit prompt, its rephrasings, and what depends on it."""
        key = _rule_key(self.form, record)
        yield _probe("efficacy", self.form, record[f"{self.form}_prompt"], key)
        for prompt in record[f"{self.form}_rephrasings"]:
            yield _probe("paraphrase", self.form, prompt, key)
        yield from _neighbors(self.form, record, self._by_id)
        yield from _instances(record["instances"])
        yield _understanding("description" if self.form == "formula" else "formula", record)

    @property
    def origin(self) -> str:
        """Say in a few words which data the cases come from."""
        return "our own rules" if self.data == "bundled" else Path(self.data).name

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the data without reading them: records, address, size, checksum."""
        return {
            "default": "our own rules, which come with the package",
            "records": cls.counts,
            "from": "tools/rule_edit/rules.json of the repository, by python -m tools.rule_edit",
            "size": f"{BUNDLED['paper'].stat().st_size:,} bytes",
            "sha256": sha256_of(BUNDLED["paper"]),
        }

    @property
    def digest(self) -> str:
        """The SHA-256 of the file that the cases come from."""
        return sha256_of(self._file())

    def _chosen(self) -> list[Record]:
        return [r for r in self._by_id.values() if self.dim in ("all", r["dim"])]

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        path = self._file()
        entries = reading.read(path, Written, flaws, key="id")
        found = {entry.record["id"]: entry for entry in entries}
        refuse(path, unknown(found), "add those rules, or do not ask of them")
        return found

    @cached_property
    def _by_id(self) -> dict[str, Record]:
        return {name: entry.record for name, entry in self._entries.items()}

    def _file(self) -> Path:
        if self.data == "bundled":
            return BUNDLED[self.wording]
        if self.wording != "paper":
            raise DataError(f"wording={self.wording} is of the bundled rules alone", "leave it out")
        return file_at(self.data, "data is 'bundled', or a .json or .jsonl file")


@dataclass
class RuleEditDescription(RuleEdit):
    """Writes the description of a rule, such as "the side length added to itself".

    Asked for: the description, rephrased too; the formula; four instances; and the descriptions of
    four other rules.
    """

    form = "description"


@dataclass
class RuleEditInstance(RuleEdit):
    """Writes two instances of a rule, one after the other, and asks for the rule.

    The two that are written are the ones that ask for the number at once. Asked for: both of them,
    rephrased too; two more of the same sentence with new numbers; formula and description; and
    instances of four other rules.
    """

    regime = Regime(in_turn=True)
    counts = "80 rules, with 2 instances to write and 2 unseen ones each"

    def requests(self, record: Record) -> tuple[Request, ...]:
        """Return what is written, in this order."""
        subject = record["subject"]
        return tuple(
            Request(placed(e["prompt"], subject)[0], subject, e["target_new"], e["target_true"])
            for e in _direct(record)
        )

    def probes(self, record: Record) -> Iterator[Probe]:
        """Yield what is asked of a rule."""
        for each in _direct(record):
            yield _number("efficacy", each["prompt"], each)
        for each in _direct(record):
            yield _number("paraphrase", each["rephrasing"], each)
        yield from _neighbors("number", record, self._by_id)
        yield from _instances(record["unseen"])
        yield _understanding("formula", record)
        yield _understanding("description", record)


@dataclass
class RuleEditHierarchy(RuleEdit):
    """Writes the formula of a rule of the plane, and asks for the rules of space that depend on it.

    Of each of those: the formula, and two instances, as they follow from the edited rule.
    """

    metrics = ("rule-answers", "rule-hierarchy", "judging")
    counts = "5 rules of the plane, and 17 that depend on them with 3 checks each"

    def probes(self, record: Record) -> Iterator[Probe]:
        """Yield what is asked of a rule and of those that depend on it."""
        yield _probe("efficacy", "formula", record["formula_prompt"], _rule_key("formula", record))
        for link in record["hierarchy"]:
            # The link says what the other rule is to be, in the place of that one's own edit.
            target = self._by_id[link["rule"]] | {"formula_new": link["formula_new"]}
            tags = {"of": "formula", "link": link["link"]}
            key = _rule_key("formula", target)
            yield _probe("hierarchy", "formula", target["formula_prompt"], key, tags)
            for each in link["instances"]:
                tags = {"of": "instance", "link": link["link"], "kind": each["kind"]}
                yield replace(_number("hierarchy", each["prompt"], each), tags=tags)

    def _chosen(self) -> list[Record]:
        return [record for record in super()._chosen() if record["hierarchy"]]


def _understanding(form: str, record: Record) -> Probe:
    prompt = record[f"{form}_prompt"]
    return _probe("understanding", form, prompt, _rule_key(form, record), {"of": form})


def _instances(instances: Sequence[Record]) -> Iterator[Probe]:
    for each in instances:
        yield replace(_number("instance", each["prompt"], each), tags={"kind": each["kind"]})


def _neighbors(form: str, record: Record, rules: Mapping[str, Record]) -> Iterator[Probe]:
    """Yield what is asked of other rules; a judge compares the replies before and after."""
    for each in record["out_of_scope"]:
        other = rules[each["rule"]]
        if form == "number":
            prompt, about = _direct(other)[0]["prompt"], NUMBER
        else:
            prompt, about = other[f"{form}_prompt"], _about(other)
        key = Key("same", about={"of": form, **about})
        decoded = "direct" if form == "number" else form
        yield _probe("neighborhood", decoded, prompt, key, {"kind": each["kind"]})


def _number(role: str, prompt: str, instance: Record) -> Probe:
    kind = instance["kind"]
    about = {**NUMBER, "steps": kind == "steps"}
    key = Key("number", instance["answer_new"], instance["answer_true"], about)
    return _probe(role, kind, prompt, key)


def _rule_key(form: str, record: Record) -> Key:
    about = _about(record)
    if form == "description":
        about["texts"] = {"right": record["description_new"], "old": record["description"]}
    return Key(form, record["formula_new"], record["formula"], about)


def _about(record: Record) -> dict[str, Any]:
    return {name: record[name] for name in ("lhs", "variables", "derived", "constraints")}


def _probe(
    role: str, form: str, prompt: str, key: Key, tags: Mapping[str, str] | None = None
) -> Probe:
    length, stop = FORMS[form]
    query = Generate(prompt, max_new_tokens=length, stop=stop)
    return Probe(role, query, tags or {}, key)


def _direct(record: Record) -> list[Record]:
    return [each for each in record["instances"] if each["kind"] == "direct"]
