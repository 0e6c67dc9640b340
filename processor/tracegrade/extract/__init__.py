"""A trace in, its agent runs and tool calls out."""
