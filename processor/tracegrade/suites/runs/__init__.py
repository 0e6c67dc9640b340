"""Suites run with models and agents: what is stored of each run of a case, and what it is measured against."""
