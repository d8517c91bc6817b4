"""Delete, update and merge from Python, without Spark."""
