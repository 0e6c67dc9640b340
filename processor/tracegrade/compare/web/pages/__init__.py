"""Pages of comparing."""
