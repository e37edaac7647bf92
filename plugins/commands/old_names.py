"""Commands by their old names. None is listed; each says what it is called now, and does that."""

from edit_harness_plugins.command_line import Alias

submit = Alias("leaderboard", "submit")
verify = Alias("leaderboard", "verify")
