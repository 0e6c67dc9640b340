"""``/traces/{trace_id}``: one trace, its judgement, conversation and spans, and its downloads."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.access.caller import Caller
from tracegrade.codec.kept_spans import trace_of
from tracegrade.display import json_text
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.following import begin, following
from tracegrade.extract.conversation import conversation
from tracegrade.extract.how_read import BY_SHAPE_ADVICE, by_shape, spans_not_read
from tracegrade.extract.joining import join
from tracegrade.extract.registry import in_force
from tracegrade.extract.trace_context import ExtractionContext, SubjectContext
from tracegrade.history.earlier_turns import Turns
from tracegrade.history.runs.experiments import check_stored
from tracegrade.history.stored_json import otlp_lines, stored_json
from tracegrade.history.why import derived_pairs, read_judgement
from tracegrade.judge import Evidences
from tracegrade.match.select import SUBJECTS, subjects_of
from tracegrade.model.errors import NotFound
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.session import session_trace_id
from tracegrade.model.span import Span
from tracegrade.model.subject import Subject
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import close_reason_text
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.evaluation_spec import EvaluationSpec
from tracegrade.rule.prices import Prices
from tracegrade.rule.rule import Rule
from tracegrade.store.heads import heads_of
from tracegrade.store.named import trace_id_named
from tracegrade.store.read import stored_traces
from tracegrade.store.rule_texts import judges_alike, rules_of
from tracegrade.store.schema import LIVE
from tracegrade.web.addresses import address, session_address, spans_at, trace_address
from tracegrade.web.alignment import Alignment, aligned
from tracegrade.web.masked import seen_by
from tracegrade.web.pages.traces import around
from tracegrade.web.render import page
from tracegrade.web.rights import check_right, token_of
from tracegrade.web.sources import Sources, sources_of
from tracegrade.web.talks import shown_talks, spent_as_judged
from tracegrade.web.violations import Sentence, named_spans, sentences
from tracegrade.web.waterfall import waterfall

_MAX_LINES = 250
_MAX_CALLS = 100
_MAX_UNREAD = 20
_MAX_ALIKE = 5  # shown decisions of one rule with the same outcome: a rule that judges calls has one for each call
_ORDER = {"fail": 0, "error": 1, "not_evaluable": 2, "pass": 3, "sampled_out": 4}


@dataclass(frozen=True, slots=True)
class ShownEvaluation:
    """One evaluation, its item of the rule if that is known, and the calls beside the expected ones, or constraints."""

    evaluation: Evaluation
    spec: EvaluationSpec | None
    alignment: Alignment | None
    turns: list[str]  # sentences on calls in earlier turns of its session
    constraints: list[Sentence]


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """One span, and the calls that were read from it."""

    span: Span
    calls: list[ToolCall]


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """One decision of a rule on one subject; ``rule`` is the text that judged, None where it is not known."""

    decision: Decision
    rule: Rule | None
    outcome: str
    evaluations: list[ShownEvaluation]
    in_force: bool


def show(request: Request) -> Response:
    """The trace of this id; if several tenants have it, that of the tenant in the address."""
    return _shown(request, None)


def show_span(request: Request) -> Response:
    """The trace, with one of its spans in a panel: everything that was kept of it."""
    return _shown(request, request.path_params["span_id"])


def _shown(request: Request, span_id: str | None) -> Response:
    sources, asked = sources_of(request), request.query_params
    only, everything = asked.get("rule", ""), "all" in asked
    with sources.store() as connection:
        stored = chosen_trace(connection, request)
        head = stored.trace
        if head.members is not None:
            return RedirectResponse(session_address(request.path_params["trace_id"], head.tenant, head.run))
        span = None if span_id is None else _span(stored, span_id, token_of(request))
        if stored.values_are_gone:
            return page(
                request,
                "trace_without_values.html",
                title=head.root_name or "Trace",
                head=head,
                decisions=[*stored.decisions, *stored.backfilled],
                calls=stored.tool_calls,
            )
        back, previous, following = around(connection, request)
        values = _values(connection, sources, stored, only, everything, token_of(request))
    of_list = {"rule": only, "list": asked.get("list")}
    return page(
        request,
        "trace.html",
        title=head.root_name or "Trace",
        only=only,
        here=trace_address(head.trace_id, head.tenant, head.run, **of_list),
        span_at=spans_at(head.trace_id, head.tenant, head.run, **of_list),
        whole=trace_address(head.trace_id, head.tenant, head.run, **of_list, all="1"),
        back=back or address("/traces", run=head.run),
        previous=previous,
        following=following,
        span=span,
        **values,
    )


def _span(stored: TraceResult, span_id: str, caller: Caller) -> ShownSpan:
    """Raises HTTPException: 404, the trace has no such span."""
    trace = trace_of(stored)
    spans = join(trace.spans, trace.log_records, in_force().events)
    span = next((span for span in spans if span.span_id.hex() == span_id), None)
    if span is None:
        raise HTTPException(404, f"Trace {stored.trace.trace_id} has no span {span_id}.")
    calls = [call for call in stored.tool_calls if span_id in (call.span_id, *call.also_seen_in)]
    return ShownSpan(seen_by(caller, span), seen_by(caller, calls))


def download_json(request: Request) -> Response:
    """Everything stored of the trace, as ``tracegrade traces show --format json`` prints it; needs ``read-values``."""
    stored = _todownload(request)
    return download(json_text(stored_json(stored)), "application/json", f"{stored.trace.trace_id}.json")


def download_otlp(request: Request) -> Response:
    """The trace as OTLP/JSON, as ``tracegrade traces export`` writes it; needs ``read-values``."""
    stored = _todownload(request)
    return download("".join(otlp_lines(stored)), "application/jsonl", f"{stored.trace.trace_id}.otlp.jsonl")


def _todownload(request: Request) -> TraceResult:
    check_right(request, "read-values")
    with sources_of(request).store() as connection:
        return chosen_trace(connection, request)


def download(content: str | bytes, media_type: str, name: str) -> Response:
    """A file that browsers save under `name`."""
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def chosen_trace(connection: Connection, request: Request) -> TraceResult:
    """The trace, or session, named by the path, of the run in the address.

    If several tenants have it, it is that of the tenant in the address.

    Raises:
        HTTPException: 404, it is not a trace id, or not stored.
        NotFound: there is no such run.
    """
    asked = request.query_params
    return trace_with_id(connection, request.path_params["trace_id"], asked.get("tenant"), asked.get("run", "") or LIVE)


def trace_with_id(connection: Connection, written: str, tenant: str | None, run: str) -> TraceResult:
    """The trace, or session, whose id is `written`, of that tenant, or of the first that has it.

    Raises:
        HTTPException: 404, it is not a trace id, or not stored.
        NotFound: there is no such run.
    """
    check_stored(connection, run)
    try:
        trace_id = trace_id_named(connection, written, run=run)
    except NotFound as error:
        raise HTTPException(404, f"{error}.") from None
    found = stored_traces(connection, trace_id, run=run)
    stored = next((item for item in found if tenant in (None, item.trace.tenant)), None)
    if stored is None and run != LIVE:
        raise HTTPException(404, f"Run {run} has no such trace, or retention has deleted it.")
    if stored is None:
        raise HTTPException(
            404,
            "This trace is not in the store. It may still be open, wait in the journal, be older than store.retention, "
            "or never have arrived here: 'tracegrade why' says more.",
        )
    return stored


def _values(
    connection: Connection, sources: Sources, stored: TraceResult, only: str, everything: bool, caller: Caller
) -> dict[str, Any]:
    rule_set = sources.rule_set()
    read = read_judgement(connection, stored, sources.config.traces)
    assert read.extraction is not None
    extraction = read.extraction
    in_force = {rule.hash: rule for rule in rule_set.rules}
    judged_alike = judges_alike(connection, stored.trace.rule_set_hash, rule_set)
    all_decisions = [*read.decisions, *stored.backfilled]
    hashes = {decision.pair.rule_hash for decision in all_decisions}
    by_hash = rules_of(connection, hashes) | {found: in_force[found] for found in hashes if found in in_force}
    depths = {0, *(rule.depth for rule in by_hash.values())}
    subjects: dict[tuple[str, str, int], Subject] = {
        (subject.kind, subject.id, depth): subject
        for scope in SUBJECTS
        for depth in (depths if scope == "agent" else {0})
        for subject in subjects_of(extraction, scope, depth)
    }  # not for sessions, whose calls are also in other traces
    shown_decisions, alike = _chosen(all_decisions)
    evidences, trace_context = Evidences(redacted=extraction.redacted), ExtractionContext(extraction)

    def shown_decision(decision: Decision) -> ShownDecision:
        rule = by_hash.get(decision.pair.rule_hash)
        depth = rule.depth if rule is not None else 0
        subject = subjects.get((decision.pair.subject.kind, decision.pair.subject.id, depth))
        evidence = None
        if subject is not None:
            evidence = evidences.of(subject, SubjectContext(trace_context, subject))
        return _shown_decision(decision, rule, in_force.values(), evidence, read.turns, caller)

    decisions = [shown_decision(decision) for decision in shown_decisions]
    lines = waterfall(seen_by(caller, extraction.trace.spans), extraction)
    shown = lines if everything else lines[:_MAX_LINES]
    unread = spans_not_read(extraction)
    talks = conversation(extraction)
    used, prices = spent_as_judged(talks, Prices(sources.config.traces.prices), stored.trace.cost)
    listed = unread if everything else unread[:_MAX_UNREAD]
    rules_that_judged = {decision.pair.rule_id for decision in all_decisions}
    return {
        "head": stored.trace,
        "closed": close_reason_text(stored.trace.close_reason),
        "sessions": _sessions(connection, stored),
        "decisions": decisions,
        "alike": alike,
        # The decisions of the chosen rule are shown separately.
        "passes": Counter(
            item.pair.subject.kind == "session"
            for item in all_decisions
            if _outcome(item) == "pass" and item.pair.rule_id != only
        ),
        # A rule that judged one agent of the trace is not one that did not judge it.
        "others": _alike(
            pair
            for pair in derived_pairs(replace(read, decisions=all_decisions), rule_set, judged_alike=judged_alike)
            if pair["rule_id"] not in rules_that_judged
        ),
        "other_rules": not judged_alike,
        "by_shape": by_shape([extraction]),
        "by_shape_advice": BY_SHAPE_ADVICE,
        "unread": listed,
        "unread_hidden": len(unread) - len(listed),
        "lines": shown,
        "hidden": len(lines) - len(shown),
        "failing": failing_rules(all_decisions),
        "talks": shown_talks(seen_by(caller, talks), prices, None if everything else _MAX_CALLS),
        "spent": used,
        "may_download": caller.may("read-values"),
    }


def _sessions(connection: Connection, stored: TraceResult) -> list[tuple[str, str]]:
    """The names and addresses of the sessions that a trace is part of."""
    head = stored.trace
    ids = {name: session_trace_id(head.tenant, name) for name in head.sessions}
    judged = {found.trace_id for found in heads_of(connection, head.tenant, head.run, [*ids.values()], sessions=True)}
    return [
        (name, session_address(own.hex(), head.tenant, head.run, "" if own.hex() in judged else name))
        for name, own in ids.items()
    ]


def _shown_decision(
    decision: Decision,
    rule: Rule | None,
    in_force: Collection[Rule],
    evidence: Evidence | None,
    turns: Turns,
    caller: Caller,
) -> ShownDecision:
    shown = []
    for evaluation in decision.evaluations:
        spec = _spec(rule, evaluation) if rule is not None else None
        alignment = None
        if rule is not None and spec is not None and evidence is not None and evaluation.score is not None:
            alignment = aligned(spec, _judged_by(spec, rule, evidence), evaluation.pairing)
        shown.append(
            ShownEvaluation(
                seen_by(caller, evaluation),
                spec,
                None if alignment is None else seen_by(caller, alignment),
                turns.that_called(evaluation),
                sentences(evaluation),
            )
        )
    return ShownDecision(seen_by(caller, decision), rule, _outcome(decision), shown, rule in in_force)


def _judged_by(spec: EvaluationSpec, rule: Rule, evidence: Evidence) -> Evidence:
    """What an item of the rule judged: of ``then``, the calls that follow."""
    if rule.begins_after is None or spec not in rule.then:
        return evidence
    place = begin(evidence, rule.begins_after).certain
    return evidence if place is None else following(evidence, place)


def _spec(rule: Rule, evaluation: Evaluation) -> EvaluationSpec | None:
    """The item of the rule that made `evaluation`."""
    cases = rule.cases.all if rule.cases is not None else ()
    specs = [*rule.evaluate, *rule.then, *(case.spec for case in cases)]
    return next((spec for spec in specs if (spec.name, spec.case) == (evaluation.evaluation, evaluation.case)), None)


def _alike(pairs: Iterable[dict[str, Any]]) -> list[tuple[str, str, str, str, int]]:
    """Rule, decision, kind of subject and reason of `pairs`, and the number of subjects with each."""
    found = Counter((pair["rule_id"], pair["decision"], pair["subject"]["kind"], pair["reason"]) for pair in pairs)
    return [(*key, times) for key, times in found.items()]


def _outcome(decision: Decision) -> str:
    return decision.outcome or decision.kind


def _chosen(decisions: Sequence[Decision]) -> tuple[list[Decision], list[tuple[str, str, int]]]:
    """The decisions shown in full, the worst first; and outcome, rule and number of similar ones."""
    groups: dict[tuple[str, str], list[Decision]] = {}
    for decision in sorted(decisions, key=lambda decision: _ORDER.get(_outcome(decision), 9)):
        groups.setdefault((_outcome(decision), decision.pair.rule_id), []).append(decision)
    shown = [decision for group in groups.values() for decision in group[:_MAX_ALIKE]]
    return shown, [(*key, len(group) - _MAX_ALIKE) for key, group in groups.items() if len(group) > _MAX_ALIKE]


def failing_rules(decisions: Sequence[Decision]) -> dict[str, list[str]]:
    """The rules that fail on the subject of a span, or name its call as wrong, by the span's hex id."""
    found = named_spans(decisions)
    for decision in decisions:
        if decision.outcome == "fail":
            rules = found.setdefault(decision.pair.subject.span_id, [])
            if decision.pair.rule_id not in rules:
                rules.append(decision.pair.rule_id)
    return found
