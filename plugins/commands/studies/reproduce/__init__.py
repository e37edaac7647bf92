"""Runs a paper's table again and compares the numbers."""
