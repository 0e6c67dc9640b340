"""Results from their journal to every sink.

Takes: the judged traces of the results journal, in order, from memory as long as a sink keeps up (``recent.py``).
Gives: each of them to each sink, at least once; ids are derived and bytes are equal, so a repetition changes nothing.
May lose: results that a sink gives up, and those that retention deletes before a ``drop_oldest`` sink; both are counted
by sink.
Order: that of the results journal, separately for each sink, with its own position and retries.
Cost: encoding for OTLP and rows for SQL; nothing for each span.

``registry.py`` lists the sinks, ``sink.py`` defines what a sink is, ``sinks/`` holds one in each file, ``consumer.py``
reads and retries for each; ``carriers.py`` and ``events.py`` encode results as spans and log records.
"""
