"""What checks of the log ask the database, and how its rows are rebuilt."""
