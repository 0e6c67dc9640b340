"""One small file a dialect, nothing else."""
