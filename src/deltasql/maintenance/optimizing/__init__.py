"""Optimize: combines files of a partition, in bins that processes share."""
