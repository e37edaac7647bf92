"""UnKEBench (Deng et al., 2025): a paragraph is written as the answer to a question that has no subject.

The authors' layout is read, as in final_data_v3.json. They ask in a chat template, of 512 new tokens each, and
have a model judge the answers to the sub-questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from edit_harness import Case, Generate, Probe, Request
from edit_harness.registry.settings import Count
from edit_harness_plugins import inputs
from edit_harness_plugins.downloads import Remote

from ._files.published import FileTask, Published
from ._files.records import Id, Record

AUTHORS = Published("UnKEBench", Remote(("https://github.com/TrustedLLM/UnKE",), "UnKE"), 1_000)
TOKENS_OF_A_WORD = 2
"""More than English has with any usual tokenizer, so that a whole answer has room."""


def room(answer: str) -> int:
    """Return tokens that hold an answer in any script: no usual tokenizer makes more of a sign than it has bytes."""
    beyond = sum(len(sign.encode()) for sign in answer if not sign.isascii())
    return max(TOKENS_OF_A_WORD * len(answer.split()), beyond)


class Layout(inputs.Layout):
    """What a record must have."""

    id: Id
    question: str
    para_question: str
    answer: str
    sub_question: list[str]
    sub_answer: list[str]


@dataclass
class Unke(FileTask):
    """Questions to be answered by a paragraph; the same reworded, and questions about its parts."""

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), or a .json or .jsonl file."""
    most_tokens: Count = 512
    """The longest answer, where the right one needs no fewer: two tokens for each of its words, or, of scripts
    like Chinese, one for each byte beyond ASCII if these are more."""
    sub_tokens: Count = 32
    """The longest answer to a question about a part."""

    published, layout, key = AUTHORS, Layout, "id"
    sample, otherwise = "unke", "auto"
    files = "1,000 in final_data_v3.json, by the paper"
    version: ClassVar[str] = "0.1"
    metrics = ("rouge",)
    asks = (
        "A question, without a subject, is followed by one space and the answer that is written. It, its "
        "rewording and questions about parts of the answer are answered greedily, up to the end of the "
        f"text: in {TOKENS_OF_A_WORD} tokens for each word of the answer, or one for each byte beyond ASCII if these "
        "are more, within most_tokens; and in sub_tokens."
    )
    citation = (
        "Deng, Wei, Pang, Ding, Shen, Cheng: Everything is Editable: Extend Knowledge Editing to "
        "Unstructured Data in Large Language Models. ICLR 2025"
    )

    def _wrong(self, record: Record) -> Iterator[str]:
        asked, answered = len(record["sub_question"]), len(record["sub_answer"])
        if asked != answered:
            yield f"`$.sub_question` has {asked} questions, `$.sub_answer` {answered} answers"

    def _case(self, name: str, record: Record, position: int) -> Case:
        request = Request.of(record["question"], record["answer"])
        most = min(self.most_tokens, room(request.target_new))
        parts = zip(record["sub_question"], record["sub_answer"], strict=True)
        probes = (
            Probe("efficacy", Generate(request.text, most)),
            Probe("paraphrase", Generate(record["para_question"], most)),
            *(
                Probe("sub-question", Generate(asked, self.sub_tokens), {"reference": answer})
                for asked, answer in parts
            ),
        )
        return Case(name, (request,), probes)
