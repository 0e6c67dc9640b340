"""Which records a judge that is far behind leaves unread: those of who sends most, so that small senders lose nothing.

Without it, retention deletes the oldest segments that the judge has not read, whoever they are of: one sender without
pause costs all others as large a part of their judgements as its own. Leaving a record unread costs a hundredth of
judging it, so the judge has soon caught up, and judges everybody's again.

A sender here is a service of a tenant. Only while the journal waits for the judge does this look into records.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from tracegrade.journal.record import Record
from tracegrade.model.signal import Signal
from tracegrade.otlp.service import service_of

Sender: TypeAlias = tuple[str, str]
"""Tenant and service."""

# From so much of the journal on that is not read yet, the smallest senders are judged who sent so much of it together.
# Beyond seven eighths, retention deletes.
LEVELS = ((0.75, 0.1), (0.65, 0.25), (0.5, 0.5))
ENDS_BELOW = 0.35
_WATCHES_FROM = 0.125
_MOST_NAMED = 3
_JUDGED = frozenset({Signal.TRACES, Signal.LOGS})


class FairShares:
    """The senders of what was read lately, and whose records are left unread."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` is the bound of the journal."""
        self._max_bytes = max_bytes
        self._read: Counter[Sender] = Counter()  # bytes of each, of about the last eighth of the journal
        self._total = 0
        self._level = 0.0  # of all bytes, the part of whom is judged; 0: everybody is
        self.over: frozenset[Sender] = frozenset()
        """Who sent more than its share, as of the last look."""

    def note_lag(self, lag_bytes: int) -> None:
        """Note how far the judge is behind; call it before each read."""
        part = lag_bytes / self._max_bytes
        wanted = next((kept for least, kept in LEVELS if part >= least), 0.0)
        if part < ENDS_BELOW:
            self._level = 0.0
        elif wanted:
            self._level = min(wanted, self._level or 1.0)
        if part < _WATCHES_FROM and self._total:
            self._read.clear()
            self._total = 0
        self.over = _largest(self._read, self._level) if self._level else frozenset()

    def condition(self) -> str | None:
        """The text of the condition ``judge_leaves_out``; None while nobody's records are left unread."""
        if not self.over:
            return None
        first = sorted(self.over, key=lambda sender: (-self._read[sender], sender))
        shown = ", ".join(f"service {service!r} of tenant {tenant!r}" for tenant, service in first[:_MOST_NAMED])
        more = f", and {len(first) - _MOST_NAMED} more" if len(first) > _MOST_NAMED else ""
        return f"spans are left out of {shown}{more}"

    def left_unread(self, records: Sequence[Record], lag_bytes: int) -> frozenset[int]:
        """The positions of those of `records` that are not to be read; notes who sent all of them."""
        if lag_bytes < _WATCHES_FROM * self._max_bytes:
            return frozenset()
        found = []
        for record in records:
            if record.signal in _JUDGED:
                sender = record.tenant, service_of(record.payload)
                self._read[sender] += len(record.payload)
                self._total += len(record.payload)
                if sender in self.over:
                    found.append(record.position)
        if self._total > _WATCHES_FROM * self._max_bytes:
            self._halve()
        return frozenset(found)

    def _halve(self) -> None:
        self._read = Counter({sender: size // 2 for sender, size in self._read.items() if size > 1})
        self._total = sum(self._read.values())


def _largest(read: Counter[Sender], kept: float) -> frozenset[Sender]:
    """The senders that are left out so that the others sent at most `kept` of it; none if that would be everybody.

    Who sent as much is treated alike.
    """
    room = kept * sum(read.values())
    sizes = Counter(read.values())
    allowed = 0
    for size in sorted(sizes):
        room -= size * sizes[size]
        if room < 0:
            break
        allowed = size
    over = frozenset(sender for sender, size in read.items() if size > allowed)
    return over if len(over) < len(read) else frozenset()
