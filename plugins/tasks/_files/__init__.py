"""What tasks share that read published files."""
