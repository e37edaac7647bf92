"""What editors share that search for a value: passes over the ends of texts, the covariance of keys."""
