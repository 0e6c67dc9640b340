"""Judged traces out to every sink."""
