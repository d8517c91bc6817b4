"""Changes to a table that write no rows: columns, properties, constraints, features."""
