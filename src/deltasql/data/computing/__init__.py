"""What a table computes of its rows: generated, default and identity columns, and its rules."""
