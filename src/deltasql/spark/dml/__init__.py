"""Delete, update and merge on Spark."""
