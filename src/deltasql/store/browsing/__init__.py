"""What people look at: pages of tables, versions and files, each from an index and a limit."""
