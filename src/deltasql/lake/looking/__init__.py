"""What people ask a lake: what changed, how large it is, whether its location can be used."""
