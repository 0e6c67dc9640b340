"""Original requests out again, from the journal."""
