"""Original requests out again, from the journal.

Takes: journal records, from each exporter's own position. Gives: the requests as they were journalled, to one OTLP
peer an exporter. May lose, and counts as failed by reason: requests that the peer refuses for good, that were retried
for ``max_elapsed_time``, or that retention deleted first (``when_full: drop_oldest``). Order: requests leave in the
journal's order, several under way at a time, so a peer may see them out of order, and some of them again after a
restart. Cost: no parsing; a request is a read, a send and two counters.
"""
