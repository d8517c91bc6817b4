"""The seam for upkeep in the background: a queue of jobs."""
