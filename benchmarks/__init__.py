"""Benchmarks: two routes in one process, compared as a ratio. Never part of the tests' verdict."""
