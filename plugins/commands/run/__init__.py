"""Commands that edit a model: run, try, edit, prepare."""
