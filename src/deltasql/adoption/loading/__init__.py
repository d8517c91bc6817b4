"""A log that others wrote, read and turned into rows."""
