"""One small file for each sink, nothing else."""
