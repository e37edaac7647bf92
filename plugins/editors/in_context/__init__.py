"""Editors that write the fact into the prompt."""
