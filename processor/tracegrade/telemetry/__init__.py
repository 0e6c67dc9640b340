"""Our own metrics, and what is wrong right now."""
