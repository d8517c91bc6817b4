"""Checkpoints: a table's state at a version as Parquet."""
