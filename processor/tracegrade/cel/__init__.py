"""The Common Expression Language: what an expression can see, its check when a rule is loaded, and its value."""
