"""Comparing on the page and in the API."""
