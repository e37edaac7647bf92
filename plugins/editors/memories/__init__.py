"""Editors that keep facts beside the model, and say for each text whether they are asked."""
