"""The queue of optimize, and where it moved rows."""
