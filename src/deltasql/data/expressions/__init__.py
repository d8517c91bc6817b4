"""SQL text over rows: parsed and run by an embedded DuckDB, with the meaning Delta gives it."""
