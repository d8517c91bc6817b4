"""Commit files on their way to the object store, in order, under a lease."""
