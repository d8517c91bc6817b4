"""What notebooks and prompts show of values: HTML, columns, and reports in short."""
