"""The JSON API: the facade over HTTP."""
