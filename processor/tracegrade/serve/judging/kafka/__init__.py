"""Judging where Kafka is the journal: one member of the judges' group, with a judge for each partition it has.

``loop.py`` polls and commits. ``records.py`` makes journal records of messages, ``partition_judge.py`` judges those of
one partition, ``gathered_results.py`` makes durable what all of them judged, ``sessions.py`` judges sessions, whose
traces lie in any partitions, and ``pauses.py`` holds memory within its bounds. ``replay.py`` reads again what was read.
"""
