"""Prompts in a chat template: a protocol of its own, with tokens as the template writes them."""

import signal
import threading
import time

import pytest
from support.builders import REQUEST
from support.chats import chatty

from edit_harness import Choose, UsageError
from edit_harness.edits import UNEDITED
from edit_harness.model.tokens import Tokens
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.loading.chat import chat_frame, within

INST = "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}"
CLOCK = "{{ date_string or strftime_now('%d %b %Y') }} {{ messages[0].content }}:"


def applied(tokenizer, prompt, target=""):
    """What the tokenizer itself makes of a conversation, with the target's text behind it."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return tuple(tokenizer(text + target, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("kind", ["gpt2", "llama2", "llama3", "qwen2"])
def test_tokens_are_those_of_the_template(kind):
    tokenizer = chatty(kind)
    tokens = Tokens(tokenizer, frame=chat_frame(tokenizer))
    for prompt in (REQUEST.text, f"Today. {REQUEST.text}"):
        assert tokens.encode(prompt).ids == applied(tokenizer, prompt)
        parts = tokens.split(prompt, "Paris, France")
        assert parts.prompt + parts.target == applied(tokenizer, prompt, "Paris, France")
        assert tokens.decode(parts.target).strip() == "Paris, France"
        for target in ("", "Paris, France"):
            subject = tokens.subject_last(REQUEST, prompt, target)
            held = tokenizer.decode([parts.prompt[subject]]).strip()
            assert held
            assert REQUEST.subject.endswith(held)


def test_a_target_behind_a_bracket_gets_its_space():
    tokenizer = chatty(template=INST)
    tokens = Tokens(tokenizer, frame=chat_frame(tokenizer))
    parts = tokens.split("Where?", "Paris")
    assert parts.prompt + parts.target == applied(tokenizer, "Where?", " Paris")


def test_the_day_does_not_enter_a_score():
    assert chat_frame(chatty(template=CLOCK)).before == "1 Jan 2025 "


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template"),
        ("Hello{{ eos_token }}", "does not repeat .* but 0 times"),
        # A stranger's review of issue 18: prompts would be others than those that are asked.
        ("{{ messages[0].content | upper }}:", "does not repeat .* but 0 times"),
        ("{{ messages[0].content }} Again: {{ messages[0].content }}:", "but 2 times"),
    ],
)
def test_what_cannot_be_framed_is_refused(template, message):
    with pytest.raises(UsageError, match=message) as caught:
        chat_frame(chatty(template=template))
    assert "--chat-template" in caught.value.remedy


def test_the_protocol_has_another_digest_name_and_answers():
    tokenizer = chatty()
    plain = tiny_model("llama", tokenizer=tokenizer)
    chat = tiny_model("llama", tokenizer=tokenizer, frame=chat_frame(tokenizer))
    assert chat.tokens.digest != plain.tokens.digest
    assert chat.name == f"{plain.name}[chat]"
    query = Choose(REQUEST.text, (REQUEST.target_new,))
    answers = [model.answer([(UNEDITED, query)])[0] for model in (plain, chat)]
    assert answers[0].nll(0) != answers[1].nll(0)


class TestRomeInAChat(EditorTests):
    editor = Rome(layer=0, steps=8, weight_decay=0.5, clamp=4.0, covariance=False,
                  contexts=("{}", "Today. {}"))  # fmt: skip

    @pytest.fixture
    def model(self):
        tokenizer = chatty()
        return tiny_model("llama", tokenizer=tokenizer, frame=chat_frame(tokenizer))


# The alarm of templates, which are programs.


def test_what_takes_too_long_is_ended_and_leaves_no_alarm():
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"), within(0.05):
        time.sleep(60)
    with within(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 4
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is handler
    # In another thread there is none at all.
    seen = []

    def work():
        with within(60):
            seen.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0.0]
