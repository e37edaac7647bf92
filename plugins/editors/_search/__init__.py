"""What editors share that search for a value."""
