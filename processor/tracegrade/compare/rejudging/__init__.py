"""Stored traces and sessions judged again, by other rules."""
