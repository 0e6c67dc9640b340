"""Evaluations in, alerts out."""
