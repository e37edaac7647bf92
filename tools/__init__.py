"""For whoever works on the project: makes the bundled models and rules, and casts nets that no test casts."""
