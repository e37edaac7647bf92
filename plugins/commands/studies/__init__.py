"""Commands that make many runs: sweep, trace, reproduce."""
