"""Compares two sides of stored results rule by rule: which rules pass less often, and is that more than chance?

Takes two sides (a release, an agent, a model, a run or a time) and their stored results. Gives a verdict for each rule,
with both rates, their difference, its 95 % interval and a p-value; what runs took; and what agents do differently.

``shares``, ``pairs``, ``bootstrap`` and ``verdict`` are statistics alone: numbers in, numbers out, the same on every
machine. ``gate`` has the baselines of gates, ``rejudging`` judges stored traces again, ``backtest`` says what changed
rules would have said. A part: ``part`` names what it adds to the rest, which never imports it.
"""
