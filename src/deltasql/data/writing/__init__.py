"""Rows to Parquet files with stats."""
