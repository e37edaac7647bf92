"""Runs an editor over a grid of its settings."""
