"""Values that an answer names, and whether what the agent was told gives them.

`claims` finds them, `numbers` and `dates` read how people write these, `sources` holds what the prompt and the outputs
of calls gave.
"""
