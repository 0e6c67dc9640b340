"""Deliver: results from their journal to every sink.

Takes: the judged traces of the results journal, in order, from memory as long as a sink keeps up (``recent.py``).
Gives: each of them to each sink, at least once; ids are derived and bytes are equal, so that twice is once.
May lose: what a sink gives up, and what retention deletes before a ``drop_oldest`` sink; both counted by sink.
Order: that of the results journal, for each sink by itself, which has a position and retries of its own.
Cost: encoding for OTLP and rows for SQL; nothing a span.

``registry.py`` lists the sinks, ``sink.py`` says what one is, ``sinks/`` holds one a file, ``consumer.py`` is what is
around each; ``carriers.py`` and ``events.py`` encode results as spans and log records.
"""
