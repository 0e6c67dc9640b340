"""Serve: what runs as a process, and what keeps it running.

One file for each role: ``receive_role.py`` receives, forwards and keeps the others running, ``judge_role.py`` judges
and delivers, ``web_role.py`` serves the page and the API. Where several judge, ``worker_role.py`` is one of them, with
``worker_upkeep.py`` beside it, and ``delivery_role.py`` delivers for all. What roles are made of is in a folder each:

- ``receiving/``: where requests go once they are checked, how far judges are, and what is shown of all processes;
- ``supervising/``: the other processes, as the receive role starts, watches and ends them;
- ``judging/``: the thread that reads, judges and appends results;
- ``delivering/``: the thread that brings results to sinks and alerts, and keeps the store.

``process.py`` is what every process has around its role (``parent.py`` is its end of the supervisor's pipe),
``tuning.py`` what it asks of its system. ``rule_reload.py`` holds the rules in force. ``offline.py`` does the work of a
role that does not run.
"""
