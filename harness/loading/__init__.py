"""From a name to a model in memory, on whatever devices there are."""
