"""Shows which states of a model recall a fact."""
