"""The dashboard: pages made on the server."""
