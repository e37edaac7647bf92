"""The command ``check`` on what hangs or ends its interpreter."""

from support.checked import SUITE, checked, put


def test_what_ends_the_interpreter_is_named_and_given_up_in_the_end(tmp_path):
    put(tmp_path, "step-dead", harm="os._exit(0)")
    code, told, checks = checked(tmp_path, "step-dead", "-k", "editor", "--no-run")
    assert code == 6
    failed = [subject for (subject, _), outcome in checks.items() if outcome == "FAILED"]
    # Three are enough to see that it will not get any better.
    assert failed == ["editor steepest"] * 3
    assert "crashed while running" in told
    assert "maximum crashed workers reached" in told


DROWSY = """
    def test_drowsy_one_sleeps(self):
        import time
        time.sleep(600)

    def test_drowsy_two_wakes(self):
        pass
"""


def test_what_hangs_is_named_and_the_rest_is_checked(tmp_path):
    put(tmp_path, "step-slow", suite=SUITE + DROWSY)
    code, told, checks = checked(
        tmp_path, "step-slow", "-k", "drowsy", "--no-run", "--seconds", "5"
    )
    assert code == 6
    assert checks["editor steepest", "drowsy one sleeps"] == "FAILED"
    assert "Timeout" in told
    assert "test_drowsy_one_sleeps" in told
    assert checks["editor steepest", "drowsy two wakes"] == "PASSED"
