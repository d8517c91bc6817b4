"""Connections to PostgreSQL: their pool, limits and failures."""
