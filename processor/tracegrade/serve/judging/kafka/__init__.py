"""Judging where Kafka is the journal: one member of the judges' group, with a judge for each partition it has.

``source.py`` polls and commits. ``records.py`` makes journal records of messages, ``partition_judge.py`` has those of
one partition judged, ``sessions.py`` judges sessions, whose traces lie in any partitions, and ``pauses.py`` holds
memory within its bounds. ``replay.py`` reads again what was read.
"""
