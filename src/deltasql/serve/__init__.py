"""`deltasql serve`: worker, HTTP API, catalog and dashboard in one process."""
