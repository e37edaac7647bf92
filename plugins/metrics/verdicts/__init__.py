"""Metrics of judged answers."""
