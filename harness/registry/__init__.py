"""Which plugins are installed, what their settings are, and whose fault an error is."""
