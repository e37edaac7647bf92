"""What stands before a question, so that a model answers it shortly: questions with answers.

The 16 that are built in are about facts that everybody knows, half of them in two steps, in our own
words; others come from the user's files. Nothing is taken from the data that are asked about, and
nothing here depends on the question but its relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edit_harness import DataError
from edit_harness_plugins.inputs import empty_texts, fitted, json_of, refuse, text_of

from .published import local

BUILT_IN = (
    ("In which country is the Colosseum?", "Italy"),
    ("What is the capital of the country where the Colosseum stands?", "Rome"),
    ("Who wrote Hamlet?", "William Shakespeare"),
    ("In which country was the author of Hamlet born?", "England"),
    ("Which company makes the PlayStation?", "Sony"),
    ("In which city is the company that makes the PlayStation based?", "Tokyo"),
    ("On which continent is Kenya?", "Africa"),
    ("On which continent is the country whose capital is Lima?", "South America"),
    ("Which sport did Pelé play?", "association football"),
    ("What is the official language of the country that Pelé was a citizen of?", "Portuguese"),
    ("Who founded Microsoft?", "Bill Gates"),
    ("Of which country is the founder of Microsoft a citizen?", "United States of America"),
    ("What is the currency of Japan?", "yen"),
    ("What is the currency of the country where sumo comes from?", "yen"),
    ("Who painted Guernica?", "Pablo Picasso"),
    ("In which city was the painter of Guernica born?", "Málaga"),
)


@dataclass(frozen=True)
class Shots:
    """Texts of answered questions: one for every question, or others by relation."""

    general: str
    """Stands before every question that has no text of its own; empty: the question stands alone."""
    by_relation: Mapping[str, str]

    def prompt(self, question: str, relation: str = "") -> str:
        """Return the question behind the answered ones, up to where its answer begins."""
        before = self.by_relation.get(relation, self.general)
        return f"{before}\nQ: {question} A:" if before else question

    def alone(self, relation: str = "") -> bool:
        """Tell whether a question stands alone, so that a model may go on after its answer."""
        return not self.by_relation.get(relation, self.general)


def read(demonstrations: str, prompts: str) -> Shots:
    """Return what two settings say: "built-in", "none" or a text file; a JSON file or nothing.

    The JSON file has a text for each relation, by its id. Raises `DataError` for a file that is not
    there, has no text, or is of another layout.
    """
    return Shots(_general(demonstrations), _by_relation(prompts) if prompts else {})


def _general(name: str) -> str:
    if name == "built-in":
        return "\n".join(f"Q: {question} A: {answer}" for question, answer in BUILT_IN)
    if name == "none":
        return ""
    path = local(name, "demonstrations is 'built-in', 'none', or a text file")
    if not (text := text_of(path).strip()):
        raise DataError(f"{path} has no demonstrations in it", "to have none: demonstrations=none")
    return text


def _by_relation(name: str) -> dict[str, str]:
    path = local(name, "prompts is a .json file of texts by relation, such as rel-prompts.json")
    found = json_of(path, text_of(path))
    try:
        problems = list(empty_texts(fitted(found, dict[str, str])))
    except ValueError as error:
        problems = [str(error)]
    refuse(path, problems, "expected an object with a text for each relation")
    return {relation: text.strip() for relation, text in found.items()}
