"""Clients, connections and servers that fail in the midst of a commit."""
