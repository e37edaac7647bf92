"""Commands that read run folders: case, score, compare, diff, report, repair."""
