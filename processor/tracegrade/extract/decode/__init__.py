"""What frameworks write into attributes, as values."""
