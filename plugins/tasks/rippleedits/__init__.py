"""RippleEdits."""
