"""What metrics, tasks and editors share that compare texts by their words."""
