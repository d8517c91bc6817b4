"""What a commit may contain."""
