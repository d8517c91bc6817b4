"""Many writers at once, killed at random, and the whole history checked afterwards."""
