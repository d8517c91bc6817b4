"""Which files a predicate may match, surely matches, or can't match."""
