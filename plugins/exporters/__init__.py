"""Writes edits and runs as other tools read them."""
