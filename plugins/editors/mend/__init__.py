"""MEND: a trained network turns gradients into edits."""
