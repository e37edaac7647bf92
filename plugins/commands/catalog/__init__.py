"""Commands that show what is there: ls, show, plugins."""
