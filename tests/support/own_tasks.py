"""Two small tasks for lm-evaluation-harness, in its YAML, written where a test wants them."""

import json

FACTS = (
    ("The head office of Barclays is in", "London", "Paris", "Rome"),
    ("The country of Genoa is", "Italy", "Japan", "France"),
    ("Diageo has its head office in", "London", "Oslo", "Berlin"),
    ("Henri Becquerel is a native speaker of", "French", "English", "Polish"),
    ("Henri Becquerel was a baby in", "Paris", "London", "Rome"),
)
TALES = (
    "The country of Genoa is Italy. Diageo has its head office in London.",
    "Henri Becquerel was a famous physicist. In 1989, the teacher saw the wooden bridge.",
    "Jenny Erpenbeck worked as a professional novelist.",
)
MULTIPLE_CHOICE = """
task: {name}
dataset_path: {path}
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: 0
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
"""
ROLLING = """
task: {name}
dataset_path: {path}
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - metric: word_perplexity
  - metric: bits_per_byte
"""


def write(folder):
    """Write both tasks with their documents, and one whose data are on a hub that is out of reach."""
    facts = [{"question": question, "choices": list(choices)} for question, *choices in FACTS]
    tales = [{"text": text} for text in TALES]
    for name, text, rows, path in (
        ("facts", MULTIPLE_CHOICE, facts, "json"),
        ("tales", ROLLING, tales, "json"),
        ("elsewhere", MULTIPLE_CHOICE, [], "nobody-there/no-such-data"),
    ):
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = text.format(name=f"own_{name}", path=path, data=data)
        (folder / f"{name}.yaml").write_text(made)
    return folder
