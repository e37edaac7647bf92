"""Controls that measure a model by code of their own: put to a module that holds an edit, or none.

What such code sees is the module alone. So an edit has to be in its weights, or a patch of it; what
`edit_harness.model.hooks` gives rows of a batch, by adaptors or a prefix, is refused, never left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..data import Case, Examined, Graded, Request
from ..edits import Edit
from ..errors import PluginError
from ..model.model import Model
from ..registry import guard as process
from ..registry.settings import Named
from . import control


def check(model: Model, editor: Named, requests: Sequence[Request]) -> None:
    """Raise `PluginError` if an editor's edits cannot be seen in the module, by trying one.

    An edit that fails here fails in the run as well, where it is counted.
    """
    with process.restored(lambda changed: None):
        try:
            edit = editor.value.edit(model, requests)
        except Exception:
            return
    if isinstance(edit, Edit) and (why := _unseen(edit)):
        raise PluginError(
            f"editor {editor.name} edits by {why}, which a control with code of its own does not see",
            "use an editor of weights or of a patch, or --control text, which any edit can be put to",
        )


def case(model: Model, named: Named) -> Case:
    """Return what a control puts to edited models: a question, or its own code."""
    query = named.value.query(model)
    if query is not None:
        return control.case(named.name, query)
    return Examined(control.PREFIX + named.name, (), (), control=named.value)


def examine(model: Model, edit: Edit, case: Examined) -> Graded:
    """Return what a control makes of the model under an edit.

    What its code changes about the process is put back. Raises `PluginError` for an edit that is not
    in the module, and for what is no answer; and what the control raises.
    """
    if why := _unseen(edit):
        raise PluginError(f"the edit is one by {why}, which is not in the module")
    with process.restored(lambda changed: None), model.applied(edit):
        found = case.control.examine()
    if not isinstance(found, Graded):
        raise PluginError(f"a control answers with a {type(found).__name__}, which is no Graded")
    return found


def _unseen(edit: Edit) -> str:
    """Return what of an edit is not in the module while it is applied; empty if nothing is."""
    kinds = {"adaptors": edit.adaptors, "a text before the prompt": edit.prefix}
    return " and ".join(name for name, there in kinds.items() if there)
