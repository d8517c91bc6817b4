"""The read half of Unity Catalog's REST API."""
