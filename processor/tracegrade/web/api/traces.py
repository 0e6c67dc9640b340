"""Stored traces, and why they were judged as they were."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from tracegrade.access.caller import Caller
from tracegrade.history.stored_json import stored_json
from tracegrade.history.why import StoredJudgement, derived_pairs, read_judgement, stored_pairs, worst_first
from tracegrade.model.trace_result import NotDecoded, RunSummary, TraceSummary
from tracegrade.queries.lists import check_run, traces_page
from tracegrade.queries.parameters import TracesQuery
from tracegrade.store.read import stored_traces
from tracegrade.store.rule_texts import judges_alike
from tracegrade.store.schema import LIVE
from tracegrade.web.api.described import described_by
from tracegrade.web.api.documents import (
    Document,
    EvaluationDocument,
    ExactJson,
    Page,
    PairDocument,
    ToolCallDocument,
    TraceDocument,
    page_json,
)
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import (
    ApiCaller,
    ApiSources,
    Parameters,
    PartOf,
    RunName,
    TraceId,
    asked_in_pages,
)
from tracegrade.web.masked import seen_by
from tracegrade.web.problem import not_found

router = Operations(503)


class RunQuery(Parameters):
    """Which run."""

    run: RunName = LIVE


@described_by(RunSummary)
class RunDocument(Document):
    """One agent run of a trace; tokens are those of its own model calls. Null is what was not recorded."""


@described_by(NotDecoded)
class NotDecodedDocument(Document):
    """Why no rule judged a trace, so that its runs and calls are read when they are asked for, by these aliases."""


@described_by(TraceSummary, runs=list[RunDocument], not_decoded=NotDecodedDocument | None)
class RecordDocument(Document):
    """A judged trace, or session, as it was delivered; `members` are a session's traces with their revisions."""


class DecisionDocument(Document):
    """What became of one (subject, rule) pair."""

    rule_id: str
    rule_hash: str
    subject_kind: str
    subject_id: str
    kind: str
    outcome: str | None
    reason: str


class EventDocument(Document):
    """An event of a span, or a log record that was joined to it."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class SpanDocument(Document):
    """One span with the attributes that were kept: those that a dialect, a rule or `alerts.slices` reads.

    `unread_keys` are the keys of all attributes that came with a span that looks like a tool call and that no dialect
    reads; null for every other span.
    """

    span_id: str
    parent_span_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str
    attributes: dict[str, Any]
    events: list[EventDocument]
    scope: str
    resource: dict[str, Any]
    unread_keys: list[str] | None


class UnreadSpanDocument(Document):
    """A span that looks like an agent's work and could not be read: why, and what would have it read.

    `keys` are those of its attributes where it looks like a tool call; else null.
    """

    span_id: str
    name: str
    scope: str
    reason: str
    advice: str
    keys: list[str] | None


class StoredDocument(Document):
    """Everything stored of one trace or session."""

    trace: RecordDocument
    tool_calls: list[ToolCallDocument]
    evaluations: list[EvaluationDocument]
    decisions: list[DecisionDocument]
    spans: list[SpanDocument]
    unread: list[UnreadSpanDocument]
    values_deleted: bool = Field(False, description="Values and spans were deleted, as they are too old")


class Stored(Document):
    """The traces of one id: one for each tenant."""

    items: list[StoredDocument]


class WhyDocument(Document):
    """What became of every rule on one trace: as stored, and derived with the rules in force."""

    tenant: str
    pairs: list[PairDocument]


class Why(Document):
    """One for each tenant."""

    items: list[WhyDocument]


@router.operation("GET /traces", "Traces, the newest first", Page[TraceDocument], 404)
def list_traces(
    sources: ApiSources, caller: ApiCaller, part: Annotated[PartOf[TracesQuery], asked_in_pages(TracesQuery)]
) -> ExactJson:
    """Traces that all the parameters choose, in pages."""
    with sources.store() as connection:
        found = traces_page(connection, part.query.filter(with_backfilled=True), part.limit, part.cursor)
        return page_json(caller, found)


@router.operation(
    "GET /traces/{trace_id}", "One trace, or session by a trace id of its own, with all its results", Stored, 404
)
def show_trace(
    sources: ApiSources, caller: ApiCaller, trace_id: TraceId, query: Annotated[RunQuery, Query()]
) -> ExactJson:
    """Everything stored of a trace, or session, as `tracegrade traces show` shows it."""
    with sources.store() as connection:
        check_run(connection, query.run)
        found = stored_traces(connection, bytes.fromhex(trace_id), run=query.run)
    if not found:
        raise not_found(f"trace {trace_id} in the store")
    return ExactJson({"items": [stored_json(stored, partial(seen_by, caller)) for stored in found]})


@router.operation("GET /traces/{trace_id}/why", "Why it was judged as it was, or not at all", Why, 404)
def explain_trace(
    sources: ApiSources, caller: ApiCaller, trace_id: TraceId, query: Annotated[RunQuery, Query()]
) -> ExactJson:
    """What became of each rule on the trace, and why, as `tracegrade why` says it."""
    rule_set = sources.rule_set()
    with sources.store() as connection:
        check_run(connection, query.run)
        found = stored_traces(connection, bytes.fromhex(trace_id), run=query.run)
        read = [read_judgement(connection, stored, sources.config.traces) for stored in found]
        # While the store is open, as earlier turns of a session are looked up.
        items = [
            {
                "tenant": item.stored.trace.tenant,
                "pairs": worst_first(
                    [*_stored_pairs(item, caller), *derived_pairs(item, rule_set, judged_alike=judged_alike)]
                ),
            }
            for item in read
            for judged_alike in (judges_alike(connection, item.stored.trace.rule_set_hash, rule_set),)
        ]
    if not items:
        raise not_found(f"trace {trace_id} in the store")
    return ExactJson({"items": items})


def _stored_pairs(read: StoredJudgement, caller: Caller) -> list[dict[str, Any]]:
    return stored_pairs(replace(read, decisions=seen_by(caller, read.decisions)))
