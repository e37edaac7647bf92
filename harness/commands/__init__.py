"""The commands' names and flags. What they do is elsewhere, and imported when it is asked for."""

import click

from edit_harness_plugins.commands.authoring import making
from edit_harness_plugins.commands.catalog import looking
from edit_harness_plugins.commands.distributed import scaling
from edit_harness_plugins.commands.leaderboard import board
from edit_harness_plugins.commands.results import results
from edit_harness_plugins.commands.run import measuring
from edit_harness_plugins.commands.studies import searching
from edit_harness_plugins.judges.people import people

COMMANDS: tuple[click.Command, ...] = (
    board.leaderboard,
    board.submit,
    board.verify,
    looking.case,
    looking.list_,
    looking.plugins_,
    looking.show,
    making.build_data,
    making.check,
    making.new,
    making.prepare,
    measuring.edit,
    measuring.run,
    measuring.score,
    measuring.try_,
    people.annotate,
    results.compare,
    results.diff,
    results.repair,
    results.report,
    scaling.cluster_check,
    scaling.merge,
    searching.reproduce,
    searching.sweep,
    searching.trace,
)
