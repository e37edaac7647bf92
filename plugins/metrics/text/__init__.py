"""Metrics of generated texts."""
