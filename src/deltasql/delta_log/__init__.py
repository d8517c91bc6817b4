"""The format of a `_delta_log`: names, listings, commits, checkpoints, checksums."""
