"""Runs on many machines: workers that get chunks of a plan, and shards that are merged."""
