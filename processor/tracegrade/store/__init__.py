"""The store: all SQL is here, and nowhere else."""
