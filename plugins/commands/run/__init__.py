"""Commands that edit a model: run, try, edit, and what prepare does for them."""
