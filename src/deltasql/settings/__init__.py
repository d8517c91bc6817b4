"""Settings: which ones exist, and where their values come from."""
