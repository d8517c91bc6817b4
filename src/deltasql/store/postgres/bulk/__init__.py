"""Many rows at once, in and out of PostgreSQL."""
