"""The other processes, as the receive role keeps them running.

``supervisor.py`` starts, watches and ends a child process; ``judge_process.py``, ``web_process.py`` and
``jobs_process.py`` say what differs, and ``judge_keeper.py`` knows how many processes judge.
"""
