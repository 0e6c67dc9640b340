"""Runs that replay and suites store, their experiments, and what people change of both."""
