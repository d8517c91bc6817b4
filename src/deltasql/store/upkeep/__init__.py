"""The seam for upkeep: sessions, pins, and what vacuum deletes."""
