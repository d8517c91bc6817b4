"""What a process reports about itself: log lines and metrics."""
