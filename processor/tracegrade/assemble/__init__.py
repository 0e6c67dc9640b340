"""Journal records in, closed traces out.

Takes: records in journal order, and the time up to which everything has come (`now_ns`, the records' own time).
Gives: `Trace`s with their close reason, when each is due.
May lose, and says so: spans and log records of a trace beyond its caps (``dropped``), those that come later than
``reopen_for`` after the latest closing of their trace (``too_late``), log records whose trace never comes
(``unjoined``).
Order: a trace depends on its set of distinct spans and log records only, never on their order or batching.
Cost: O(spans), plus O(log live traces) a closing.
"""
