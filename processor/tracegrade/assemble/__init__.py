"""Journal records in, closed traces out.

Takes: records in journal order, and the time up to which all records have come (`now_ns`, in the records' own time).
Gives: `Trace`s with their close reason, when each is due.
May lose, and counts: spans and log records of a trace beyond its bounds (``dropped``), those that come later than
``reopen_for`` after their trace was closed last (``too_late``), log records whose trace never comes (``unjoined``).
Order: a trace depends only on its set of distinct spans and log records, never on their order or batching.
Cost: O(spans), plus O(log live traces) for each closing.
"""
