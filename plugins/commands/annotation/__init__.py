"""What people say of a run's texts: sheets to fill in, how far they agree, and how far a judge does.

What the command ``annotate`` does stands in `annotating`. Nothing here asks a model, or a judge.
"""
