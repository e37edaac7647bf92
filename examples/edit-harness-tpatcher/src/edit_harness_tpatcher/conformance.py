"""The conformance suites of the editor, for this package's tests and `edit-harness plugins check`."""

from edit_harness.testing import EditorTests

from edit_harness_tpatcher.editor import TPatcher

__all__ = ["TestTPatcher", "TestTPatcherOnLlama"]


class TestTPatcher(EditorTests):
    """What every editor must do, on a tiny GPT-2."""

    editor = TPatcher(steps=30, lr=0.2, hardest=1000)


class TestTPatcherOnLlama(TestTPatcher):
    """The same on a tiny Llama, whose MLP is gated."""

    family = "llama"
