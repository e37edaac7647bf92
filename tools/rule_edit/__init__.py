"""Makes the data sets of RULE-EDIT; nothing here is needed to *use* them."""
