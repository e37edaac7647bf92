"""CounterFact and CounterFact+."""
