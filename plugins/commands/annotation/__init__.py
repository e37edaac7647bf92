"""``annotate``: people label texts of a run, on blinded sheets; how far they agree, with each other and a judge."""
