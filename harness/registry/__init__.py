"""What is installed, what its settings are, and whose fault an error is."""
