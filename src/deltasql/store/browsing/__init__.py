"""Pages of tables, versions and files for people to read, each from an index and with a limit."""
