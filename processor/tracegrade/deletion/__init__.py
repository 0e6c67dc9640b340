"""Deletion of what is kept of traces, on request: from both journals, the store, alerts, and traces still open.

Takes: which traces: by id, by session, by user, or all first received before a time.
Gives: what was deleted, in numbers; and tombstones, by which spans of a deleted trace that arrive later are known.
May lose: nothing of other traces, except what cannot be separated: results of a session that a deleted trace was part
of (it is judged again with its next trace), and damaged bytes, whose owner is unknown.
Order: the requester writes a small file, which the writers of the two journals handle one after the other::

    requested   the request is written
    resolved    receive has looked up which traces are meant, in its journal and in the store
    erased      receive has left tombstones and erased them from its journal
    unstored    the judge has erased them from the results journal and the store, and reads what is open again
    done        delivery has rewritten the Parquet files that held them; where there are none, the judge is the last

Spans of a deleted trace that arrive later are dropped by its tombstone and erased from the journal from time to time.
Every step can be done twice, so that a kill at any moment leaves one that the next start does again. When no role
runs, the requester does both parts, under the same locks.
Cost: a pass over the journal, one over the results journal and one over the names in Parquet files; for a session, a
user or a time, which have to be looked up, one more over the journal and one over the store.

A record may hold many traces. Its length and position stay, spans of others stay byte for byte: what was a deleted
span is a field without meaning, filled with zeros, which every reader of protobuf passes over. What was not forwarded
yet is forwarded like that. Data that was forwarded before stays with its receivers.
"""
