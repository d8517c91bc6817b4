"""Parquet files to rows."""
