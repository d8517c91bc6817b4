"""The log checked against itself: rows against the commits they come from, and rebuilt."""
