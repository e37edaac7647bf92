"""Pages of HTML: of runs, to be explored, and of a leaderboard.

Everything is made from run folders that are there already: nothing is measured here, no number is
computed that `edit_harness.outcome` does not give, but for means of groups of cases. A page asks
nothing of the network, and every text of a run or a submission is somebody else's: see `text`.
"""

from edit_harness.pages.explorer import explore

__all__ = ["explore"]
