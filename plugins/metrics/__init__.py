"""Bundled metrics, by name; each loads on first use."""

from edit_harness import Register, hookimpl

METRICS = {
    "success": ("preference:Success", "Is the right object likelier? ES PS NS S"),
    "magnitude": ("preference:Magnitude", "By how much? EM PM NM"),
    "accuracy": ("preference:Accuracy", "Is the right object the likeliest of all?"),
    "nkl": ("drift:NeighborhoodKL", "Divergence of next-token distributions"),
    "fluency": ("texts:Fluency", "Does it write text or repeat itself? GE"),
    "consistency": ("texts:Consistency", "Are texts like those on the object? RS"),
    "token-accuracy": ("preference:TokenAccuracy",
        "What share of the right answer's tokens is the likeliest? ET PT NT ST"),
    "unchanged": ("preference:Unchanged",
        "Is what the model says of neighbours as before the edit? NU"),
    "wild": ("wild:Wild",
        "Are generated answers right? How far is teacher forcing above them? EM"),
    "rule-answers": ("verdicts.rules:RuleAnswers", "Is the edited rule followed? Rel Gen IP RU"),
    "rule-locality": ("verdicts.rules:RuleLocality", "Do other rules stay as they were? Loc"),
    "rule-hierarchy": ("verdicts.rules:RuleHierarchy", "Do rules that depend on it follow? HG"),
    "confidence": ("people.confidence:Confidence",
        "How sure is it of what is true of other people, by group? D D_d"),
    "cross-property": ("people.cross_property:CrossProperty",
        "Does it still know the edited subject's other properties? CP"),
    "flaws": ("people.flaws:Flaws", "Are its descriptions more biased, by a judge?"),
    "judging": ("verdicts.judging:Judging", "How far is the judge to be trusted, at what cost?"),
    "multi-hop": ("verdicts.hops:MultiHop", "Is the end of an edited chain named? MH EW IW"),
    "ripple": ("verdicts.ripples:Ripple",
        "Do consequences follow, does the rest stay? RelSpec LG SA CI CII FG"),
    "rouge": ("rouge:Rouge", "How much of the right answer does it write? ERL PRL QRL"),
}  # fmt: skip
"""Where each is, and what it asks."""


@hookimpl
def edit_harness_register_metrics(register: Register) -> None:
    """Name the metrics."""
    for name, (where, summary) in METRICS.items():
        register(name, f"{__name__}.{where}", summary)
