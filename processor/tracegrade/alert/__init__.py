"""Alerts: stored evaluations in, notifications out."""
