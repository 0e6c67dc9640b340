"""SQL, and nowhere else."""
