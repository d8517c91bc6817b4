"""Arrow data in and out of Delta's Parquet files."""
