"""The judge's output: the results of one trace, or of one session, in one revision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated

from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.field_schema import FieldSpec, json_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One agent run of a judged trace, without its calls; None is what was not recorded.

    ``span_id`` (hex) is its subject id. Tokens are sums over its own model calls, without those of its sub-agents.
    """

    span_id: Annotated[str, FieldSpec("its subject id")]
    agent: Annotated[str, FieldSpec("the name of the agent")]
    parent_span_id: Annotated[str | None, FieldSpec("the subject id of the run around it")] = None
    session: Annotated[str | None, FieldSpec("its own conversation; null where it is that of the trace")] = None
    model: Annotated[str | None, FieldSpec("the model that answered")] = None
    prompt_hash: Annotated[str | None, FieldSpec("equal for prompts that differ in white space alone")] = None
    input_tokens: Annotated[int | None, FieldSpec("of its own model calls")] = None
    output_tokens: Annotated[int | None, FieldSpec("of its own model calls")] = None
    duration_ns: Annotated[int | None, FieldSpec("from its start to its end")] = None
    cached_input_tokens: Annotated[int | None, FieldSpec("input tokens read from the provider's cache")] = None
    cache_write_tokens: Annotated[int | None, FieldSpec("input tokens written to the provider's cache")] = None


@dataclass(frozen=True, slots=True)
class NotDecoded:
    """Why no rule judges a trace, known without reading its spans; they are kept as they came.

    ``reason`` is ``not_matched`` (no rule can match) or ``sampled_out`` (the samples of all rules that may match leave
    it out). ``tool_aliases`` are those in force: its runs and calls are read by them when they are asked for.
    """

    reason: Annotated[str, FieldSpec("`not_matched` or `sampled_out`")]
    tool_aliases: Annotated[Mapping[str, Sequence[str]], FieldSpec("the aliases in force", optional=True)] = field(
        default_factory=dict
    )


@dataclass(slots=True)  # not frozen: making a frozen one takes three times as long
class TraceSummary:
    """A judged trace as a whole, or a judged session, without spans, calls and decisions.

    Ids are hex, times are ns since 1970 UTC; ``close_reason``, ``missing``, ``cut_by``, ``revision``, ``supersedes``,
    received times and positions are as in `Trace`. ``resource`` has the resource attributes of the root.
    ``rule_set_hash`` and ``settings_hash`` name the rules and settings that judged, ``tracegrade`` the version ("" in
    results from before the first release, which do not say).

    A session has ``members``: the revision of each of its traces by id, as in `Session`; None is what a trace has. Its
    ``trace_id`` is that of the trace which ended last, its ``closed_ns`` and ``last_received_ns`` are the time at
    which the last of its traces closed, and its spans, calls and runs are with its traces.

    A trace that is ``not_decoded`` has no runs and calls here, and ``call_count`` is 0: they are read when asked for.

    ``cost`` is None where a model has no price or did not record its tokens. ``prompt`` is cut to what a list shows.
    """

    tenant: Annotated[str, FieldSpec("whose trace")]
    run: Annotated[str, FieldSpec("`live`, or the run that judged")]
    trace_id: Annotated[str, FieldSpec("the trace id; of a session that of the trace which ended last")]
    revision: Annotated[
        int, FieldSpec("the highest replaces the others", in_column=" of the same `tenant`, `run` and `judged_id`")
    ]
    supersedes: Annotated[int | None, FieldSpec("the revision that was judged before this one, if any")]
    service: Annotated[str, FieldSpec("the service of the trace's root")]
    release: Annotated[str | None, FieldSpec("its release")]
    session: Annotated[str | None, FieldSpec("its conversation")]
    root_name: Annotated[str | None, FieldSpec("the name of the root span")]
    resource: Annotated[dict[str, JsonValue], FieldSpec("the resource attributes of the root", is_value=True)]
    close_reason: Annotated[str, FieldSpec("why it was closed")]
    complete: Annotated[bool, FieldSpec("whether nothing was missing; the others are left out of pass rates")]
    missing: Annotated[list[str], FieldSpec("what was missing")]
    cut_by: Annotated[str | None, FieldSpec("the bound that cut it short, if one did")]
    span_count: Annotated[int, FieldSpec("spans kept")]
    call_count: Annotated[int, FieldSpec("tool calls read; 0 where it was not decoded")]
    earliest_span_id: Annotated[str | None, FieldSpec("the span that started first")]
    root_span_id: Annotated[str | None, FieldSpec("the root span; null where it did not come")]
    start_ns: Annotated[int, FieldSpec("when its first span started", is_time=True)]
    end_ns: Annotated[int, FieldSpec("when its last span ended", is_time=True)]
    first_received_ns: Annotated[
        int,
        FieldSpec(
            "when the first span came in", is_time=True, column="received", in_column="; its day is the folder's `date`"
        ),
    ]
    last_received_ns: Annotated[int, FieldSpec("when the last span came in", is_time=True)]
    first_position: Annotated[int, FieldSpec("the place of its first span in the journal")]
    last_position: Annotated[int, FieldSpec("the place of its last span in the journal")]
    closed_ns: Annotated[int, FieldSpec("when the trace was closed", is_time=True, column="closed")]
    rule_set_hash: Annotated[str, FieldSpec("which rules were in force")]
    tracegrade: Annotated[str, FieldSpec("the version that judged")]
    settings_hash: Annotated[str, FieldSpec("which settings were in force")]
    runs: Annotated[list[RunSummary], FieldSpec("its agent runs")] = field(default_factory=list)
    members: Annotated[
        dict[bytes, int] | None, FieldSpec("the traces of a session, with their revisions", optional=True)
    ] = None
    not_decoded: Annotated[
        NotDecoded | None, FieldSpec("why no rule judged it, if it was not decoded", optional=True)
    ] = None
    cost: Annotated[
        float | None, FieldSpec("what its model calls cost, by the prices in force when it was judged", optional=True)
    ] = None
    prompt: Annotated[str | None, FieldSpec("the first words of its first prompt", is_value=True, optional=True)] = None

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
        """The documented JSON object, which is also what is stored."""
        return json_of(self)


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
