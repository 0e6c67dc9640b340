"""What stands for a trace of one tenant where only ids are kept, as in the list of deleted traces."""

from collections.abc import Container
from hashlib import blake2b


def tenant_mark(tenant: str, trace_id: bytes) -> bytes:
    """16 bytes that stand for this trace of this tenant; a bare id stands for the trace in every tenant."""
    text = tenant.encode("utf-8", "replace")
    return blake2b(trace_id, key=blake2b(text, digest_size=32).digest(), digest_size=16).digest()


def is_marked(marks: Container[bytes], tenant: str, trace_id: bytes) -> bool:
    """Whether `marks` has this trace of this tenant, by its id or by its mark."""
    return trace_id in marks or tenant_mark(tenant, trace_id) in marks


class MarkedOf:
    """Of `marks`, those that concern one tenant: has the ids of its traces."""

    def __init__(self, marks: Container[bytes], tenant: str) -> None:
        self._marks = marks
        self._tenant = tenant

    def __contains__(self, trace_id: object) -> bool:
        return isinstance(trace_id, bytes) and is_marked(self._marks, self._tenant, trace_id)
