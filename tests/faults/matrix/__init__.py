"""The fault matrix: every verb that writes, struck at every point where it commits."""
