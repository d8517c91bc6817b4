"""The queue of optimize, and where it put rows."""
