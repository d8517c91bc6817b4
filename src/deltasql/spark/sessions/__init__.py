"""Spark sessions: their jars, settings and credentials."""
