"""The mirror's half of the log store: leases, and the status of versions."""
