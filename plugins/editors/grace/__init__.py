"""GRACE: a codebook beside one MLP map."""
