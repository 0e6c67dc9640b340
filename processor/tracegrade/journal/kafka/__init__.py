"""Kafka as the journal: one message a trace of each request, keyed by the trace's id.

Takes requests from receivers (`produce`), and gives them to judges and forwarders, which are consumer groups. Spans
and log records of one trace lie in partitions of the same number, because both topics have as many and both are keyed
alike; `topics` checks that this is so. Only this package imports ``confluent_kafka``, which is an extra, and only where
a client is made.
"""
