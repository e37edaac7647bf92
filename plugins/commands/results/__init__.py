"""Commands that read run folders: score, compare, diff, case, repair."""
