"""The store. All SQL is here and nowhere else."""
