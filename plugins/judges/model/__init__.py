"""Judges that are language models, here or on a server."""
