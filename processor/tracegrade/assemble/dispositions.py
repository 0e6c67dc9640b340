"""Dispositions: what became of each accepted span and log record. Metrics name them in the label ``fate``."""

from collections import Counter
from typing import TypeAlias

Dispositions: TypeAlias = Counter[tuple[str, str]]
"""How many, by disposition and reason; most dispositions have the reason ""."""

TOO_LATE = "too_late"
CAME_TOO_LATE = "came later than traces.reopen_for"
"""The meaning of `TOO_LATE` in words, as the page and the commands say it."""
DROPPED = "dropped"
"""Over a bound, deleted or ignored: the reason says which."""
LOST = frozenset({TOO_LATE, DROPPED})
"""The dispositions of spans and log records that were accepted and not judged."""
