"""Which rules judge which subjects."""
