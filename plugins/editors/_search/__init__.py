"""What editors share: requests as tokens, passes over the ends of texts, the covariance of keys."""
