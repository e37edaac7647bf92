"""A judge that is a model on this machine; torch is imported when the model is first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

from edit_harness import Generate, Text, UsageError
from edit_harness.model.tokens import TooLongError
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Count, Share, source_of

from .dialogue import Answer, ModelJudge, Said, Unfit

if TYPE_CHECKING:
    from edit_harness.model.model import Model


@dataclass
class HF(ModelJudge):
    """A language model on this machine says whether a text is right.

    It is asked greedily, through its chat template, and answers in JSON; an answer that is no
    verdict three times is unparsed. Of two texts the order is drawn, and a share is judged in both.
    """

    model: str = ""
    """A folder in the layout of transformers, or a name on the hub."""
    revision: str = ""
    """A commit, branch or tag of the hub; by default the newest."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps."""
    dtype: str = "float32"
    """float32, bfloat16, float16 or auto, as the weights are stored."""
    max_new_tokens: Count = 512
    """Tokens of an answer."""
    twice: Share = 0.1
    """Share of the pairs of texts that are judged in both orders; 1 is all of them."""
    seed: int = 0
    """Seed of the order of two texts, and of the share."""

    practical: ClassVar[Sequence[str]] = ("device",)

    @property
    def provenance(self) -> Mapping[str, str]:
        """Digests of weights, and of tokenizer and template; the model is loaded for them.

        Raises `UsageError` for a model that cannot be a judge, and what loading raises.
        """
        return {"weights": self._loaded.digest, "tokenizer": self._loaded.tokens.digest}

    @property
    def outward(self) -> Sequence[str]:
        """The model: a folder, or something to be downloaded."""
        return ["model"] if self.model else []

    def ask(self, prompts: Sequence[str]) -> list[Said]:
        """Return the model's answer to each prompt, or that it is too long for the model."""
        from edit_harness.edits import UNEDITED

        fit = [prompt for prompt in prompts if self._fits(prompt)]
        asked = [(UNEDITED, Generate(prompt, self.max_new_tokens)) for prompt in fit]
        said = dict(zip(fit, self._loaded.answer(asked) if asked else [], strict=True))
        return [
            Answer(cast(Text, said[prompt]).text, self._loaded.name)
            if prompt in said
            else Unfit("the question is too long for the model")
            for prompt in prompts
        ]

    def _fits(self, prompt: str) -> bool:
        try:
            self._loaded.tokens.encode(prompt)
        except TooLongError:
            return False
        return True

    @cached_property
    def _loaded(self) -> Model:
        from edit_harness_plugins.loading.load import load

        if not self.model:
            raise UsageError(
                "the judge 'hf' does not know which model to ask", "--judge-args model=FOLDER"
            )
        source = source_of(Plugins.installed(), self.model)
        try:
            return load(
                source, dtype=self.dtype, device=self.device, revision=self.revision or None,
                chat_template=True,
            )  # fmt: skip
        except UsageError as error:
            if "chat template" not in error.cause:
                raise
            raise UsageError(
                f"{self.model} cannot judge: {error.cause}",
                "a judge has to be a model that was trained to follow instructions",
            ) from None
