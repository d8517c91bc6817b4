"""The seam for retention: versions that leave the history."""
