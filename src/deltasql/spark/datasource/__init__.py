"""`format("deltasql")`: the data source for sessions without jars."""
