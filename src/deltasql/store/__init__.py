"""The SQL log: one seam, three dialects."""
