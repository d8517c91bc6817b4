"""Reading the log from replicas of the server that commits."""
