"""Work over stored results: what was judged, read again; what came too late; runs; and new rules.

``why.py``, ``rule_trial.py``, ``lateness.py`` and ``stored_json.py`` are of one stored trace; ``runs/`` is of runs
and experiments, ``backtest/`` of what changed rules would have said.
``new_rules/`` and ``promote/`` write rules and their tests.
"""
