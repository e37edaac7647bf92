"""Bundled metrics, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_metrics(register: Register) -> None:
    """Name the metrics."""
    here = "edit_harness_plugins.metrics"
    register("success", f"{here}.preference:Success", "Is the right object likelier? ES PS NS S")
    register("magnitude", f"{here}.preference:Magnitude", "By how much? EM PM NM")
    register("accuracy", f"{here}.preference:Accuracy", "Is the right object the likeliest of all?")
    register("nkl", f"{here}.drift:NeighborhoodKL", "Divergence of next-token distributions")
    register("fluency", f"{here}.text.fluency:Fluency", "Does it write text or repeat itself? GE")
    register(
        "consistency",
        f"{here}.text.consistency:Consistency",
        "Are texts like those on the object? RS",
    )
    register(
        "token-accuracy",
        f"{here}.tokens:TokenAccuracy",
        "What share of the right answer's tokens is the likeliest? ET PT NT ST",
    )
    register(
        "unchanged",
        f"{here}.tokens:Unchanged",
        "Is what the model says of neighbours as before the edit? NU",
    )
    register(
        "rule-answers",
        f"{here}.verdicts.rules:RuleAnswers",
        "Is the edited rule followed? Rel Gen IP RU",
    )
    register(
        "rule-locality",
        f"{here}.verdicts.rules:RuleLocality",
        "Do other rules stay as they were? Loc",
    )
    register(
        "rule-hierarchy",
        f"{here}.verdicts.rules:RuleHierarchy",
        "Do rules that depend on it follow? HG",
    )
    register(
        "confidence",
        f"{here}.people.confidence:Confidence",
        "How sure is it of what is true of other people, by group? D D_d",
    )
    register(
        "cross-property",
        f"{here}.people.cross_property:CrossProperty",
        "Does it still know the edited subject's other properties? CP",
    )
    register("flaws", f"{here}.people.flaws:Flaws", "Are its descriptions more biased, by a judge?")
    register(
        "judging",
        f"{here}.verdicts.judging:Judging",
        "How far is the judge to be trusted, at what cost?",
    )
    register(
        "multi-hop",
        f"{here}.verdicts.hops:MultiHop",
        "Is the end of an edited chain named? MH EW IW",
    )
    register(
        "ripple",
        f"{here}.verdicts.ripples:Ripple",
        "Do consequences follow, does the rest stay? RelSpec LG SA CI CII FG",
    )
