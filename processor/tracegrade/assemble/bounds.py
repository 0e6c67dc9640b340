"""The settings of ``traces`` that assembly reads, and their values for a complete input."""

from dataclasses import dataclass

OVERRIDDEN = ("settle", "idle_timeout", "max_age", "end_attribute")
"""Settings that an override may have."""

MAX_SPANS_PER_TRACE = 50_000
MAX_MIB_PER_TRACE = 64
MAX_UNPACKED_SPANS = 100_000
REOPEN_FOR_S = 600.0

_NO_BOUND = 2**62


@dataclass(frozen=True, slots=True)
class WholeInput:
    """Settings for a complete input: no trace is closed before its end, or cut to save memory. Times are in s."""

    settle: float = 3600.0
    idle_timeout: float = 3600.0
    max_age: float = 3600.0
    end_attribute: str | None = None
    max_live_traces: int = _NO_BOUND
    max_live_spans: int = _NO_BOUND


@dataclass(frozen=True, slots=True)
class WholeFiles(WholeInput):
    """The bounds of a complete input that is read without settings: their defaults, where it has none of its own."""

    overrides: tuple[()] = ()
    reopen_for: float = REOPEN_FOR_S
    max_unpacked_spans: int = MAX_UNPACKED_SPANS
    max_spans_per_trace: int = MAX_SPANS_PER_TRACE
    max_mib_per_trace: int = MAX_MIB_PER_TRACE
