"""Real parts for the tests, each a plain process on loopback: no mocks, no containers.

Every part has `start`, `stop`, `kill` and `restart`, keeps its port over a restart, and is a
context manager. A part whose program cannot be had raises `PartMissingError` with the remedy.
"""
