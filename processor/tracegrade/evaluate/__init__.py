"""Pure functions: what happened and what was expected in, a score and its details out."""
