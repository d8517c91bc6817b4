"""The SQL log: one interface, three dialects."""
