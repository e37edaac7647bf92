"""Checks of what edits are and do: that they fit the model, write what was asked, and add up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from ..cases import Choose, Request, is_finite
from ..edits import Edit
from ..errors import PluginError
from ..model.batch import padded
from ..model.model import Model
from .editing import EditorSuite
from .effects import assert_close, assert_same_answers, gain, questions, tensors_of
from .facts import FACTS, ODD


class EffectChecks(EditorSuite):
    """An edit writes what was asked, alone and among others."""

    def test_returns_edits(self, model: Model) -> None:
        """Every way of editing returns an `Edit`."""
        for way, edit in self.edits(model, FACTS):
            kind = type(edit).__name__
            assert isinstance(edit, Edit), f"{way} returned a {kind}: return an Edit"

    def test_edits_fit_the_model(self, model: Model) -> None:
        """A change has its parameter's shape, and an adaptor a module of the model."""
        for way, edit in self.edits(model, FACTS):
            try:
                model.check(edit)
            except PluginError as error:
                pytest.fail(f"{way}: {error}")

    def test_edits_are_finite(self, model: Model) -> None:
        """No number of an edit is NaN or infinite."""
        for way, edit in self.edits(model, FACTS):
            for name, tensor in tensors_of(edit):
                good = torch.isfinite(tensor).all()
                assert good, f"{way}: {name} has NaN or infinity; divide by no norm that may be 0"

    def test_makes_the_target_likelier(self, model: Model) -> None:
        """An edit does what was asked."""
        self.skip_unless_trains()
        editor = self.ready(model)
        for fact in FACTS:
            assert_written(model, editor.edit(model, [fact]), fact)

    def test_takes_several_requests_at_once(self, model: Model) -> None:
        """One edit writes every request."""
        editor = self.ready(model)
        edit = editor.edit(model, FACTS)
        self.skip_unless_trains()
        for fact, other in zip(FACTS, FACTS[::-1], strict=True):
            assert_written(model, edit, fact)
            differs = gain(model, edit, fact) != gain(model, editor.edit(model, [other]), fact)
            assert differs, f"{fact.statement!r} was left out: edit() writes all its requests"

    def test_accumulates(self, model: Model) -> None:
        """What was written before stays when more is written."""
        editor = self.ready(model)
        edit = editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:])
        self.skip_unless_trains()
        for fact in FACTS:
            assert_written(model, edit, fact)
        last_alone = editor.edit(model, FACTS[1:])
        kept = gain(model, edit, FACTS[0]) != gain(model, last_alone, FACTS[0])
        assert kept, "extend() forgot the request before: return `previous` enlarged"

    def test_edits_each_as_if_one_by_one(self, model: Model) -> None:
        """Finding many edits together gives what finding them one by one gives."""
        editor = self.ready(model)
        batches = [[fact] for fact in FACTS] + [list(FACTS)]
        together = editor.edit_each(model, batches)
        assert len(together) == len(batches), "edit_each() returns an edit for each batch"
        assert editor.edit_each(model, []) == []
        for batch, edit in zip(batches, together, strict=True):
            alone = editor.edit(model, batch)
            assert alone.prefix == edit.prefix
            assert_same_answers(model, alone, edit, rtol=1e-3, atol=1e-3)

    def test_many_edits_share_a_batch(self, model: Model) -> None:
        """A row's answer depends neither on the other rows nor on how its edit is applied."""
        editor = self.ready(model)
        edits = [Edit(), *(editor.edit(model, [fact]) for fact in FACTS), editor.edit(model, FACTS)]
        asked = [(edit, query) for query in questions() for edit in edits]
        for (edit, query), answer in zip(asked, model.answer(asked), strict=True):
            with model.applied(edit):
                (alone,) = model.answer([(edit.without_weights(), query)])
            assert_close(answer, alone, rtol=1e-4, atol=2e-5)

    def test_padding_changes_no_answer(self, model: Model) -> None:
        """A text is answered beside a longer one as it is alone, on whichever side the padding is."""
        edit = self.ready(model).edit(model, FACTS)
        prompts = FACTS[0].text, " ".join(fact.statement for fact in FACTS)
        texts = [model.tokens.encode(edit.prefix + prompt).ids for prompt in prompts]
        for left in (True, False) if model.takes_positions else (model.padding == "left",):
            alone, beside = (after(model, edit, texts[:n], left=left) for n in (1, 2))
            apart = float((beside - alone).abs().max())
            assert not apart > 1e-3, (
                f"padding on the {'left' if left else 'right'} moved a log-probability by {apart:.2g} "
                "nats: where an adaptor looks at whole rows, leave out what rows.mask leaves out"
            )

    def test_bears_odd_texts(self, model: Model) -> None:
        """Braces, accents, other scripts, a long target, no true object: data have them all."""
        editor = self.ready(model)
        together = editor.edit_each(model, [[request] for request in ODD])
        for edit, request in [*zip(together, ODD, strict=True), (editor.edit(model, ODD), ODD[0])]:
            query = Choose(request.text, (request.target_new,))
            (answer,) = model.answer([(edit, query)])
            assert is_finite(answer), f"{request} is answered with NaN or infinity"


def assert_written(model: Model, edit: Edit, fact: Request) -> None:
    """Fail unless an edit makes a request's new object likelier."""
    found = gain(model, edit, fact)
    assert found > 0, (
        f"{fact.statement!r} gained {found:.3g} nats where it should have become likelier; set "
        "trains = False if a random model cannot show the effect"
    )


@torch.no_grad()
def after(
    model: Model, edit: Edit, texts: Sequence[tuple[int, ...]], *, left: bool
) -> torch.Tensor:
    """Return the log-probabilities of what follows the first of some texts, all in one batch."""
    batch = padded(texts, left=left, device=model.device)
    lengths = [len(text) for text in texts]
    edits = [edit.without_weights()] * len(texts)
    with model.applied(edit), model.edited_rows(batch, edits, lengths):
        return model.logits(batch, batch.places([0], [lengths[0] - 1])).log_softmax(-1)
