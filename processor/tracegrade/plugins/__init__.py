"""Additions of installed packages: dialects and evaluators, found by entry point.

A program that reads traces or rules calls `installed.load_plugins` first: importing loads none.
"""
