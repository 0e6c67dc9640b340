"""Constraints on the calls of a run: the sentences that rules write, and whether they hold."""
