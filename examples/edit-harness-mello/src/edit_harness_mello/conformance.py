"""The conformance suites of the editor, for this package's tests and `edit-harness plugins check`."""

from edit_harness.testing import EditorTests

from edit_harness_mello.editor import Mello

__all__ = ["TestMello", "TestMelloUnconfirmed"]


class TestMello(EditorTests):
    """What every editor must do, on a tiny GPT-2, which takes no question apart."""

    editor = Mello(hops=2)
    trains = False


class TestMelloUnconfirmed(TestMello):
    """The same where every fact that is found counts."""

    editor = Mello(hops=2, confirm=False, threshold=0.1)
