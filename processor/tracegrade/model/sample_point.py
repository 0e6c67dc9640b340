"""Where a trace stands among all: which shares of the traces it is in."""

from hashlib import blake2b


def sample_point(trace_id: str) -> float:
    """Where a trace stands between 0 and 1: it is in every sample whose share is above."""
    digest = blake2b(trace_id.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # as many bits as a float holds: always below 1
