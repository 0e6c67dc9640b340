"""New rules with their tests and traces, to start with: from recipes, or from a recorded trace."""
