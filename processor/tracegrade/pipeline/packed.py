"""Traces and sessions as they are handed to the process that judges them, and what of them cannot be judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from tracegrade.assemble.sessions import KnownSession
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.pipeline.judged import JudgedTrace

T = TypeVar("T")


class PackedSession(NamedTuple):
    """A session that is not judged yet: what is known of it, why it closed, and its traces.

    ``gone`` are traces that it has and that are not to be found. ``max_calls`` as in ``max_calls_per_session``.
    """

    number: int
    known: KnownSession
    close_reason: str
    traces: Sequence[PackedTrace]
    gone: Sequence[bytes]
    max_calls: int

    @property
    def trace_id(self) -> bytes:
        """The id of its first trace."""
        return next(iter(self.known.members), b"")

    @property
    def span_count(self) -> int:
        """How many spans its traces have."""
        return sum(packed.span_count for packed in self.traces)


@dataclass(frozen=True, slots=True)
class Unjudgeable:
    """A trace or session that cannot be judged: of ``lacking`` traces, the spans are not there as they are read.

    ``problems`` say of which traces the spans are damaged, and how; of others, too few attributes were kept. ``of`` is
    what can be read all the same, None for nothing.
    """

    number: int
    lacking: tuple[bytes, ...]
    problems: tuple[str, ...]
    of: Extraction | Session | None


class LeftOut(NamedTuple):
    """A trace or session that is not judged: not ``chosen``, or `Unjudgeable`."""

    chosen: bool
    lacking: tuple[bytes, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement(Generic[T]):
    """What must have been kept of a packed trace to judge it.

    ``is_enough`` is asked with the hash of the attribute filter of its spans, "" when that is not known; ``left_out``
    turns what cannot be judged into output, and ``asks`` whether that depends on what can be read all the same. The
    functions are of modules, or methods of plain data, so that a worker finds them too.
    """

    is_enough: Callable[[str], bool]
    left_out: Callable[[Unjudgeable], T]
    asks: bool

    @property
    def takes_all(self) -> bool:
        """Whether any attribute filter kept enough."""
        return self.is_enough("")


def packed_trace(judged: JudgedTrace) -> PackedTrace:
    """A trace that closed and is to be judged elsewhere."""
    trace = judged.trace
    blob = encode_spans(trace.spans, trace.replaced, trace.log_records)
    without_spans = replace(trace, spans=[], replaced=[], log_records=[])
    return PackedTrace(judged.sequence, without_spans, blob, len(trace.spans))


def release_of(found: Extraction | Session) -> str | None:
    """The release of a trace; of a session, that of its first trace."""
    return found.release if isinstance(found, Extraction) else found.parts[0].release


def service_of(session: Session) -> str:
    """The service of a session: that of its first trace."""
    return session.parts[0].trace.resource.service
