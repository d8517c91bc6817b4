"""The change data feed of a table, without Spark."""
