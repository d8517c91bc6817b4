"""The command line `deltasql`: the facade in words, with no logic of its own."""
