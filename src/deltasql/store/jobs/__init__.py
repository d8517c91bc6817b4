"""The interface for background upkeep: a queue of jobs."""
