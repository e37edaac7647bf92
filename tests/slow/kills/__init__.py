"""Runs that are killed again and again, and must end as if nobody had: scripts, not part of the suite."""
