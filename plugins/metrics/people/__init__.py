"""Metrics of what an edit does to other people and to other properties."""
