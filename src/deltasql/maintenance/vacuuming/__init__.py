"""Vacuum: files that no version needs any more, found, written down, deleted."""
