"""Predicates: text, tree, and columns they are bound to."""
