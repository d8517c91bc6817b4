"""Checkpoints of the mirror: when they are due, and whether what they would say is true."""
