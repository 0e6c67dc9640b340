"""One small file for each kind of place that alerts are sent to."""
