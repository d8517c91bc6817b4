"""What databases inside our own process have in common."""
