"""The views, one a file: request in, page out."""
