"""The native route: Delta's own reader and writer, with the snapshot from SQL."""
