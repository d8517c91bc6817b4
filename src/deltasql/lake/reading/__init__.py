"""Rows of tables, and their changes, as whatever the caller likes."""
