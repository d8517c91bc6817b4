"""The interface for upkeep: sessions, pins, and what vacuum deletes."""
