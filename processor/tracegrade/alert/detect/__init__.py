"""The statistics of alerts, pure: outcomes in, findings out."""
