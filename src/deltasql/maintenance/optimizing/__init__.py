"""Optimize: files of a partition written together, in bins that processes share."""
