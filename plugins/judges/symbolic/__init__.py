"""A judge that compares formulas, numbers and descriptions by algebra."""
