"""Redaction as ingest sees it; its code is loaded only if the settings ask for it."""

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tracegrade.model.signal import Signal

if TYPE_CHECKING:
    from tracegrade.redact.requests.item import Redaction


@dataclass(frozen=True, slots=True)
class Redacted:
    """A request as it may be kept; its very bytes when nothing was found."""

    payload: bytes
    counts: "Counter[Redaction]" = field(default_factory=Counter)


class Redacts(Protocol):
    """Redacts requests that were checked; any thread may call it."""

    def in_turns(self, signal: Signal, payload: bytes, tenant: str) -> Generator[None, None, Redacted]:
        """Redact a large request in slices of some 20 ms."""
        ...

    def redacted(self, signal: Signal, payload: bytes, tenant: str) -> Redacted:
        """The request `payload`, in protobuf, as it may be kept.

        Raises:
            NotTaken: it could not be redacted.
        """
        ...


def next_turn(turns: Generator[None, None, Redacted]) -> Redacted | None:
    """Take the next turn; the request with the last one, None with those before."""
    try:
        next(turns)
    except StopIteration as done:
        redacted: Redacted = done.value
        return redacted
    return None
