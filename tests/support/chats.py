"""Tokenizers with a chat template."""

from edit_harness.testing.tiny import tiny_tokenizer

TEMPLATE = (
    "{{ bos_token or '' }}{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content | trim }}"
    "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def chatty(kind="llama3", template=TEMPLATE):
    tokenizer = tiny_tokenizer(kind)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|end|>"]})
    tokenizer.chat_template = template
    return tokenizer
