"""What of a request is searched for personal data and secrets: all but the ids and times of spans, which are no text.

They are other ones in each span, so that the same text beside them would look new; and now and then one of them looks
like a sign of something.
"""

from tracegrade.model.signal import Signal
from tracegrade.otlp.wire import ITEMS, RESOURCES, SCOPES, fields

# Two ids, and a third where there is a parent, as they are and without what they say; two times.
_IDS = b"\x0a\x10" + bytes(16) + b"\x12\x08" + bytes(8)
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_NAME, _KIND, _START, _END = b"\x2a0\x39\x41"  # the tags of the fields that follow, in the order of their numbers
_NO_TIME = bytes(8)
_TIMES = bytes((_START,)) + _NO_TIME + bytes((_END,)) + _NO_TIME
_IDS_BYTES, _TIMES_BYTES = len(_IDS), len(_TIMES)


def searched(signal: Signal, data: bytes) -> bytes:
    """`data`, a request, as long as it is, with zeros in place of the ids and times of its spans."""
    if signal is not Signal.TRACES:
        return data
    found = bytearray(data)
    for resource in fields(data, 0, len(data), RESOURCES):
        for scope in fields(data, resource.value, resource.end, SCOPES):
            for span in fields(data, scope.value, scope.end, ITEMS):
                _blank(found, data, span.value, span.end)
    return bytes(found)


def _blank(found: bytearray, data: bytes, at: int, end: int) -> None:
    """Blank what stands at the begin of a span, as far as the fields are in the order of their numbers."""
    if at + _IDS_BYTES > end or data[at : at + 2] != _TRACE_ID or data[at + 18 : at + 20] != _SPAN_ID:
        return
    found[at : at + _IDS_BYTES] = _IDS
    at += _IDS_BYTES
    if at + 10 <= end and data[at : at + 2] == _PARENT_ID:
        found[at + 2 : at + 10] = _NO_TIME
        at += 10
    if at + 1 < end and data[at] == _NAME and data[at + 1] < 0x80:
        at += 2 + data[at + 1]
    if at + 1 < end and data[at] == _KIND:
        at += 2
    if at + _TIMES_BYTES <= end and data[at] == _START and data[at + 9] == _END:
        found[at : at + _TIMES_BYTES] = _TIMES
