"""The commands' names and flags. What they do is elsewhere, and imported when it is asked for."""

import click

from edit_harness.commands import (
    board,
    looking,
    making,
    measuring,
    people,
    results,
    scaling,
    searching,
)

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
