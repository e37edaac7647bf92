"""Bundles of runs for a leaderboard: made, checked, and shown."""
