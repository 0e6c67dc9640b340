"""Steps in a partial order, and the calls of a run laid beside them in the best way.

`steps` reads what a rule says into plain steps, each with the steps that come before it; `align` finds which call is
which step.
"""
