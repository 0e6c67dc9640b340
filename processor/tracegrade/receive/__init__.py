"""Receive: OTLP from agents, over gRPC and HTTP, into the journal.

Takes: Export calls for traces, logs and metrics; protobuf or JSON, plain or compressed
(gzip and deflate; over HTTP zstd, too).
Gives: an entry in the journal for each call that holds anything; its answer goes out after the entry is durable.
May lose: nothing unsaid. What is not taken is refused, with a reason and, where a retry helps, a delay; single bad
spans are rejected by partial success and the rest of their call is taken.
Order: as the journal stamps it.
Cost: one parse and three ids read per span; requests are journalled as the bytes that came unless a span was rejected
or a text repaired.

``ingest.py`` is what both transports call, ``validate.py`` what it checks, ``reply.py`` the bodies that go back;
``auth.py`` and ``certificate.py`` know senders, ``http_connection.py`` bounds what they may take.
"""
