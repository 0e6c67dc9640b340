"""A run of a suite against an agent of one's own: a command or an HTTP endpoint that sends its spans while it works.

Takes: a case and its repetition, a *unit*. The agent gets the prompt; its spans come to the listener that the run
opens, and to no other receiver.
Gives: the unit's one trace. A root of the scope ``tracegrade.suite``, written as that of a model's, has everything that
the agent sent below it, whatever traces it was in; so that the unit is one subject with all of the agent's calls.
May lose: spans that come after their unit's end, and those that say no unit; both are counted.
"""
