"""One small file a sink, nothing else."""
