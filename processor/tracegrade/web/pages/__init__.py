"""The views, one in each file: request in, page out."""
