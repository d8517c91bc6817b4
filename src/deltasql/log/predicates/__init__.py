"""Predicates: their text, their tree, and the columns they are bound to."""
