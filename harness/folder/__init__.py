"""The run folder: its log, its rows, its tables and its manifest."""
