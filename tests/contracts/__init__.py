"""Nets under a rebuilding: what the product answers, as files, and what has changed since."""
