"""Commands by their old names. None is listed; each says what it is called now, and does that."""

from edit_harness_plugins.command_line import Alias

diff = Alias("compare", "--why")
repair = Alias("score", "--repair")
new = Alias("plugins", "new")
check = Alias("plugins", "check")
submit = Alias("leaderboard", "submit")
verify = Alias("leaderboard", "verify")
