"""Bundled models, by name."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_models(register: Register) -> None:
    """Name the models."""
    here = "edit_harness_plugins.models"
    register("pocket", f"{here}.pocket:Pocket", "A very small model that knows facts")
    register(
        "pocket-context",
        f"{here}.pocket:PocketContext",
        "As small: it follows its context, and knows geometry",
    )
