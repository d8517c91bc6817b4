"""What deltasql is compared with, each doing the same work in its own best way."""
