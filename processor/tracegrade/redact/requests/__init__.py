"""Requests of OTLP with stand-ins in place of what is not to be kept: every text, key and number in them is looked at.

Takes a parsed span, log record, metric, scope or resource, changes it in place, and counts what was replaced where.
Ids of traces and spans stay. What keeps a trace together stays together: an id or a name of a tool gets a hash and no
mask, so that both ends of a call still name the same.

May miss: what is split over several spans, or over a text and a number; two halves of base64; and what no detector
knows. Fields that this version of OTLP does not have
are taken out of what is changed.
"""
