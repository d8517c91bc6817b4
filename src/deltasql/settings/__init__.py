"""Settings: which there are, and where their values come from."""
