"""Reads files of traces in every format that is known, and says what of them was not read."""
