"""Tables, figures and pages of runs."""
