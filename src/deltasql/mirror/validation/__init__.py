"""The mirror compared with SQL."""
