"""Upkeep as users meet it: vacuum, restore, alter, clone, check, purge, recover."""
