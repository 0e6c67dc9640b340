"""The statistics of alerts, pure: outcomes in, what they show out."""
