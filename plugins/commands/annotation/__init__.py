"""What people say of a run's texts: sheets to fill in, how far they agree, and how far a judge does.

The commands are in `edit_harness_plugins.commands.annotation.annotating`. Nothing here asks a model, or a judge.
"""
