"""The lines of the benchmark; each is a function from the lab to its rows."""
