"""Vacuum: finds, records and deletes files that no version needs any more."""
