"""The mirror: a table's log in object storage, for every Delta reader, after each SQL commit."""
