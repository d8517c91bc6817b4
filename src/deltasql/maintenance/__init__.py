"""Upkeep of tables: sessions and pins, vacuum, restore, alter."""
