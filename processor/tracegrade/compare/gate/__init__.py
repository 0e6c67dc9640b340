"""Decides whether a change may go out: pass rates against bounds, and against a baseline.

``decide`` is the one function that ``tracegrade gate``, ``replay`` and ``check`` ask: the outcomes of rules and what is
required of them in, a decision out, without side effects.
"""
