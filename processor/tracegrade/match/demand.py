"""Whether any rule can judge a trace, asked before it is read: what decoding needs to know, without the rules."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from tracegrade.model.sample_point import sample_point

MayCall: TypeAlias = Callable[[frozenset[bytes]], bool]
"""Says whether one of the tools of these names may have been called; False is certain."""

NOT_MATCHED, SAMPLED_OUT = "not_matched", "sampled_out"
"""Why no rule judges a trace: none can match, or the samples of all that may match leave it out."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What rules may ask for of traces with a resource.

    ``share`` of them is judged whatever was called: 0 for none, 1 for all. ``named`` are the shares that are judged
    when one of some tools was called, by the names of these tools.
    """

    share: float
    named: frozenset[tuple[float, frozenset[bytes]]] = frozenset()

    @property
    def is_everything(self) -> bool:
        """Whether every trace is judged."""
        return self.share == 1.0

    def __or__(self, other: "Demand") -> "Demand":
        return Demand(max(self.share, other.share), self.named | other.named)

    def left_out(self, trace_id: bytes, may_call: MayCall) -> str | None:
        """Why no rule judges the trace of this id, None when one may; `may_call` is asked of what came of it."""
        if self.share == 1.0:
            return None
        if self.share == 0.0 and not self.named:
            return NOT_MATCHED
        point = sample_point(trace_id.hex())
        if point < self.share:
            return None
        sampled_out = self.share > 0.0
        for share, names in self.named:
            if point >= share:
                sampled_out = True
            elif may_call(names):
                return None
        return SAMPLED_OUT if sampled_out else NOT_MATCHED


NOTHING = Demand(0.0)
EVERYTHING = Demand(1.0)


# What may stand for a character of a name all the same: escapes of JSON and Python.
_ESCAPES = (b"\\u00", b"\\U", b"\\x", b"\\N", b"\\0", b"\\1")


def bytes_may_call(payload: bytes) -> MayCall:
    """As `MayCall`, of a trace whose spans and log records are all in `payload`, as they came."""

    @cache
    def may_call(names: frozenset[bytes]) -> bool:
        return any(name in payload for name in names) or any(escape in payload for escape in _ESCAPES)

    return may_call
