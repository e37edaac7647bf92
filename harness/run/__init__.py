"""A run: its plan, its loop, its checks and its results."""
