import pytest

from edit_harness_plugins.inputs import elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "", "auto", "gpt-4o-mini", "meta-llama/Llama-3", "http://localhost:8000/v1", "http://LOCALHOST.",
        "http://127.0.0.1:1/v1", "https://127.8.9.1", "http://[::1]:8000/v1", "http://u@localhost/",
    ],
)  # fmt: skip
def test_what_stays_on_this_machine(text):
    assert not elsewhere(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://api.example/v1", "http://127.0.0.1.judge.example", "http://localhost@judge.example/",
        "http://localhost.judge.example", "http://2130706433/", "http://0x7f.1/", "http://[::ffff:8.8.8.8]/",
        "http://10.0.0.1", "file:///etc/passwd", "://", "http://[", "http://local\thost", "ftp://x", "http://127.0.0.1\\@x/",
        "http://１２７.0.0.1/",
    ],
)  # fmt: skip
def test_what_leads_elsewhere_or_cannot_be_told(text):
    assert elsewhere(text)
