"""Dispositions: what became of each accepted span and log record. Metrics name them in the label ``fate``."""

from collections import Counter
from typing import TypeAlias

Dispositions: TypeAlias = Counter[tuple[str, str]]
"""How many, by disposition and reason; most dispositions have the reason ""."""

TOO_LATE = "too_late"
DROPPED = "dropped"
"""Over a bound, deleted or ignored: the reason says which."""
LOST = frozenset({TOO_LATE, DROPPED})
"""The dispositions of spans and log records that were accepted and not judged."""


def reason_text(disposition: str, reason: str) -> str:
    """Why items have this disposition, in the words of the page and the commands; "" where it says all."""
    return "came later than traces.reopen_for" if disposition == TOO_LATE else reason
