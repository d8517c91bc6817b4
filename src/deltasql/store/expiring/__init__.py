"""The interface for retention: versions that leave the history."""
