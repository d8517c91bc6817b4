"""Structured streaming, from and to tables."""
