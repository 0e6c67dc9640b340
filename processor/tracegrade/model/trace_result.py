"""What leaves the judge: the results of one trace, or of one session, in one revision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.tool_call import ToolCall

BACKFILL = "backfill"
"""The run of results that `rules backtest --store` keeps: they stand in the row of the live trace that they judge."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One agent run of a judged trace, without its calls.

    ``span_id`` (hex) is the subject id, ``parent_span_id`` that of the enclosing run. ``session`` is the run's own,
    None where it has that of the trace. The rest is None when it was not recorded:

    ``model`` is the model that answered. ``prompt_hash`` (16 hex digits) is equal for prompts that differ in white
    space alone. ``input_tokens`` and ``output_tokens`` are sums over the run's own model calls, without those of its
    sub-agents. ``cached_input_tokens`` of the input were read from the provider's cache, ``cache_write_tokens`` written
    to it; None where there were none. ``duration_ns`` is from its start to its end.
    """

    span_id: str
    agent: str
    parent_span_id: str | None = None
    session: str | None = None
    model: str | None = None
    prompt_hash: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    duration_ns: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object, which is also what is stored."""
        return {
            "span_id": self.span_id,
            "agent": self.agent,
            "parent_span_id": self.parent_span_id,
            "session": self.session,
            "model": self.model,
            "prompt_hash": self.prompt_hash,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "duration_ns": self.duration_ns,
            "cached_input_tokens": self.cached_input_tokens,
            "cache_write_tokens": self.cache_write_tokens,
        }


@dataclass(frozen=True, slots=True)
class NotDecoded:
    """Why no rule judges a trace, known without reading its spans; they are kept as they came.

    ``reason`` is ``not_matched`` (no rule can match) or ``sampled_out`` (the samples of all rules that may match leave
    it out). ``tool_aliases`` are those in force: its runs and calls are read by them when they are asked for.
    """

    reason: str
    tool_aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object, which is also what is stored."""
        aliases: dict[str, JsonValue] = {name: list(others) for name, others in self.tool_aliases.items()}
        return {"reason": self.reason, "tool_aliases": aliases} if aliases else {"reason": self.reason}


@dataclass(slots=True)  # not frozen: making a frozen one takes three times as long
class TraceSummary:
    """A judged trace as a whole, or a judged session, without spans, calls and decisions.

    Ids are hex, times are ns since 1970 UTC; ``close_reason``, ``missing``, ``cut_by``, ``revision``, ``supersedes``,
    received times and positions are as in `Trace`. ``resource`` has the resource attributes of the root.
    ``rule_set_hash`` and ``settings_hash`` name the rules and settings that judged, ``tracegrade`` the version ("" in
    results of before 0008, which do not say).

    A session has ``members``: the revision of each of its traces by id, as in `Session`; None is what a trace has. Its
    ``trace_id`` is that of the trace which ended last, its ``closed_ns`` and ``last_received_ns`` are the time at
    which the last of its traces closed, and its spans, calls and runs are with its traces.

    A trace that is ``not_decoded`` has no runs and calls here, and ``call_count`` is 0: they are read when asked for.
    """

    tenant: str
    run: str
    trace_id: str
    revision: int
    supersedes: int | None
    service: str
    release: str | None
    session: str | None
    root_name: str | None
    resource: dict[str, JsonValue]
    close_reason: str
    complete: bool
    missing: list[str]
    cut_by: str | None
    span_count: int
    call_count: int
    earliest_span_id: str | None
    root_span_id: str | None
    start_ns: int
    end_ns: int
    first_received_ns: int
    last_received_ns: int
    first_position: int
    last_position: int
    closed_ns: int
    rule_set_hash: str
    tracegrade: str
    settings_hash: str
    runs: list[RunSummary] = field(default_factory=list)
    members: dict[bytes, int] | None = None
    not_decoded: NotDecoded | None = None

    @property
    def own_id(self) -> bytes:
        """The trace id under which this is stored: a session has one of its own."""
        if self.members is None:
            return bytes.fromhex(self.trace_id)
        return session_trace_id(self.tenant, self.session or "")

    @property
    def sessions(self) -> list[str]:
        """Of a trace the sessions that it is part of."""
        if self.not_decoded is not None and not self.runs:
            return [self.session] if self.session else []
        found = (run.session or self.session for run in self.runs)
        return [name for name in dict.fromkeys(found) if name]

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object, which is also what is stored; ``members`` is there for sessions alone."""
        found: dict[str, JsonValue] = {
            "tenant": self.tenant,
            "run": self.run,
            "trace_id": self.trace_id,
            "revision": self.revision,
            "supersedes": self.supersedes,
            "service": self.service,
            "release": self.release,
            "session": self.session,
            "root_name": self.root_name,
            "resource": self.resource,
            "close_reason": self.close_reason,
            "complete": self.complete,
            "missing": list(self.missing),
            "cut_by": self.cut_by,
            "span_count": self.span_count,
            "call_count": self.call_count,
            "earliest_span_id": self.earliest_span_id,
            "root_span_id": self.root_span_id,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "first_received_ns": self.first_received_ns,
            "last_received_ns": self.last_received_ns,
            "first_position": self.first_position,
            "last_position": self.last_position,
            "closed_ns": self.closed_ns,
            "rule_set_hash": self.rule_set_hash,
            "tracegrade": self.tracegrade,
            "settings_hash": self.settings_hash,
            "runs": [run.to_json() for run in self.runs],
        }
        if self.not_decoded is not None:
            found["not_decoded"] = self.not_decoded.to_json()
        if self.members is not None:
            found["members"] = {trace_id.hex(): revision for trace_id, revision in self.members.items()}
        return found


VALUES_GONE = b"\x05"
"""Stands for the kept spans of a trace of which only names, ids, times and scores are kept."""


@dataclass(slots=True)  # not frozen: making a frozen one takes three times as long
class TraceResult:
    """What was judged of one trace or session; `tracegrade.codec.results` makes it, and reads it from bytes.

    ``decisions``: one for every (subject, rule) pair that matched, with its evaluations. ``spans``: the kept spans as
    `tracegrade.codec.kept_spans` packs them, b"" of a session. ``packed``: all but the spans as bytes, made once: the
    results journal and the store hold the same. ``backfilled``: the decisions that `rules backtest --store` added
    later, in the store alone; each says so by its run.
    """

    trace: TraceSummary
    spans: bytes
    tool_calls: list[ToolCall]
    decisions: list[Decision]
    packed: bytes = field(compare=False, repr=False)
    backfilled: list[Decision] = field(default_factory=list)

    @property
    def values_are_gone(self) -> bool:
        """Whether the values of the trace were deleted, since they are older than they may be."""
        return self.spans == VALUES_GONE

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return list(chain.from_iterable([decision.evaluations for decision in self.decisions]))

    @property
    def evaluations_of_any_run(self) -> list[Evaluation]:
        """The evaluations, then those that were backfilled."""
        return [*self.evaluations, *chain.from_iterable([decision.evaluations for decision in self.backfilled])]
