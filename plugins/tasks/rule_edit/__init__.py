"""RULE-EDIT: rules of geometry with their formulas, words and instances, and the task on them."""
