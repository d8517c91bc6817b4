"""What a table computes from its rows: generated, default and identity columns, and its rules."""
