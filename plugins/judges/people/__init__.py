"""The command ``annotate``: people label texts of a run on blinded sheets; how far they agree with each other and a judge."""

from edit_harness import RegisterCommand, hookimpl


@hookimpl
def edit_harness_register_commands(register: RegisterCommand) -> None:
    """Name the command."""
    register(
        "annotate",
        f"{__name__}.annotate:annotate",
        "Have people label texts of a run.",
        "Extend",
    )
