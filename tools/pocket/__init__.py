"""Builds the bundled language model ``pocket``; nothing here is needed to *use* it."""
