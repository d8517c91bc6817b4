"""Tables written by others: taken in, proven, and handed back."""
