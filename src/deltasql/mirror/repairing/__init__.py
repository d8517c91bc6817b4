"""The mirror put right where it differs from SQL."""
