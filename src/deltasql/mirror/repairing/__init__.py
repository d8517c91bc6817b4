"""Repair of a mirror that differs from SQL."""
