"""Tables that others wrote, taken in, proven, and handed back."""
