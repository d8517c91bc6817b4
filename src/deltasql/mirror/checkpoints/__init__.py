"""Checkpoints of the mirror: when they are due, and whether their content is correct."""
