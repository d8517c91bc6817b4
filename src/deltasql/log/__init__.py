"""What a log means: replay, conflicts, validation, pruning. Pure."""
