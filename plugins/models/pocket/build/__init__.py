"""Builds the bundled language model ``pocket``: world, corpus, tokenizer, weights, statistics, sample.

``python -m edit_harness_plugins.models.pocket.build`` makes every shipped file again from the JSON
files of the world. Nothing here is needed to *use* the model; that only takes the built files.
"""
