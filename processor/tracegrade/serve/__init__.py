"""Serve: what runs as a process, and what keeps it running.

``receive_role.py`` receives and forwards. It keeps the other two running (``supervisor.py``, with ``judge_process.py``
and ``web_process.py`` for what differs; ``parent.py`` is the child's side), and shows how all are (``status.py``;
``judge_progress.py`` and ``unread.py`` know what the judge has before it).

``judge_role.py`` puts the judge together from two threads that a ``hand_over.py`` joins: ``judge_loop.py`` reads and
judges, with ``results_writer.py``, ``judge_position.py``, ``judge_deletions.py``, ``judge_metrics.py`` and
``stored_traces.py``; ``delivery.py`` brings results to sinks and alerts, with ``store_upkeep.py`` and ``leftovers.py``.
``rule_reload.py`` holds the rules in force.

``web_role.py`` serves the page and the API. ``process.py`` is what every process has around its role, ``tuning.py``
what it asks of its system. ``offline.py`` does the work of a role that does not run.
"""
