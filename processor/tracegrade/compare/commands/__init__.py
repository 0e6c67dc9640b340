"""The commands of comparing: arguments in, one call, text out."""
