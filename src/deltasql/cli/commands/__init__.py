"""The commands of `deltasql`, by what they are about."""
