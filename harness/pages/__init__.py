"""Pages of HTML: of runs, to be explored, and of a leaderboard."""
