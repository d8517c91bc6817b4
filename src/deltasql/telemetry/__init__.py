"""What a process tells about itself: log lines and metrics."""
