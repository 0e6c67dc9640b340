"""Journal records in, closed traces out."""
