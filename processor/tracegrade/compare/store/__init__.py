"""Rows of comparing, of judging again and of backfills: SQL."""
