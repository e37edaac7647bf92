"""Who runs the cases of a plan: this process, or workers that get whole chunks of it."""
