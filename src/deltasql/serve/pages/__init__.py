"""The dashboard: pages rendered on the server."""
