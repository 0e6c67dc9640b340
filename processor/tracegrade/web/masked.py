"""What callers without the right ``read-values`` see: names, paths, ids, times and scores, and no values.

`seen_by` is the one function that hides. Values are the arguments and outputs of calls, prompts, answers and messages,
what errors quote, what people say of incidents and silences, and the attributes of spans that may hold any of those; in
suites, their system prompt and what their cases say and expect; in what models were asked, and other tools reported,
every text that is not a name.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from tracegrade.access.caller import Caller
from tracegrade.codec.without_values import (
    HIDDEN,
    call_without_values,
    decision_without_values,
    evaluation_without_values,
    hidden,
    hidden_text,
    resource_without_values,
    summary_without_values,
)
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.extract.conversation import Said, Step, Talk
from tracegrade.extract.registry import in_force
from tracegrade.history.runs.experiments import EntryStanding, ScoredRun, Standing, Timeline
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.store.alerts import Silence, StoredAlert
from tracegrade.store.heads import SessionSums, TraceHead
from tracegrade.store.incidents import Incident
from tracegrade.store.runs import Entry, Run
from tracegrade.web.alignment import Alignment, Row
from tracegrade.web.part import web_parts

Found = TypeVar("Found")

_NAMES_OF_CONFIGURATION = frozenset(
    {"experiment", "labels", "model", "model_id", "models", "provider_key", "suite", "tool_choice"}
)


def seen_by(caller: Caller, found: Found) -> Found:
    """`found`, as `caller` may see it: a record of what is stored, or a list of such.

    Raises:
        TypeError: it is a record of which is not known what are its values.
    """
    return found if caller.may("read-values") else without_values(found)


def without_values(found: Any) -> Any:
    """`found`, as callers without the right ``read-values`` see it; raises as `seen_by`."""
    if type(found) in (list, tuple):
        return [without_values(item) for item in found]
    if (without := _all_without().get(type(found))) is None:
        raise TypeError(f"it is not known what the values of {type(found).__name__} are")
    return without(found)


def _as_it_is(found: Found) -> Found:
    """A record that holds no value."""
    return found


def _attributes(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    declared = in_force().declared
    beside = declared.structure_beside(attributes)
    return {
        key: value if key in declared.structure or key in beside else hidden(value) for key, value in attributes.items()
    }


def _resource(resource: Resource) -> Resource:
    return replace(resource, attributes=resource_without_values(resource.attributes))


def _event(event: SpanEvent) -> SpanEvent:
    return replace(event, attributes=_attributes(event.attributes))


def _span(span: Span) -> Span:
    return replace(
        span,
        status_message=hidden_text(span.status_message),
        attributes=_attributes(span.attributes),
        events=without_values(span.events),
        resource=_resource(span.resource),
    )


def _run(run: AgentRun) -> AgentRun:
    return replace(
        run, prompt=run.prompt and HIDDEN, final_answer=run.final_answer and HIDDEN, calls=without_values(run.calls)
    )


def _hidden_text(said: Said) -> Said:
    return Said(said.role, said.text and HIDDEN, tuple(HIDDEN for _ in said.media))


def _step(step: Step) -> Step:
    calls = [[(number, call_without_values(call)) for number, call in together] for together in step.calls]
    return replace(step, heard=without_values(step.heard), said=without_values(step.said), calls=calls)


def _talk(talk: Talk) -> Talk:
    return Talk(
        _run(talk.run),
        [HIDDEN for _ in talk.system],
        without_values(talk.earlier),
        without_values(talk.steps),
        talk.opening and HIDDEN,
        talk.closing and HIDDEN,
    )


def _extraction(extraction: Extraction) -> Extraction:
    return replace(extraction, runs=without_values(extraction.runs), calls=without_values(extraction.calls))


def _result(result: TraceResult) -> TraceResult:
    """Without its spans, too: who reads them hides their values."""
    return replace(
        result,
        trace=summary_without_values(result.trace),
        tool_calls=without_values(result.tool_calls),
        decisions=without_values(result.decisions),
        backfilled=without_values(result.backfilled),
        packed=b"",
    )


def _head(head: TraceHead) -> TraceHead:
    return replace(head, prompt=head.prompt and HIDDEN)


def _alignment(alignment: Alignment) -> Alignment:
    return replace(alignment, rows=without_values(alignment.rows))


def _row(row: Row) -> Row:
    call = None if row.call is None else call_without_values(row.call)
    return replace(row, call=call, differences=without_values(row.differences), folded=without_values(row.folded))


def _difference(difference: Difference) -> Difference:
    return replace(difference, found=hidden(difference.found), lookups=())


def configuration_without_values(value: Any, name: str = "") -> Any:
    """How models were asked: numbers and names, and no other text, such as a system prompt."""
    if name in _NAMES_OF_CONFIGURATION or value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: configuration_without_values(item, key) for key, item in value.items()}
    return [configuration_without_values(item) for item in value] if isinstance(value, list | tuple) else hidden(value)


def _stored_run(run: Run) -> Run:
    return replace(run, problem=hidden_text(run.problem))


def _scored(scored: ScoredRun) -> ScoredRun:
    return replace(scored, run=_stored_run(scored.run))


def _standing(standing: Standing) -> Standing:
    return replace(standing, scored=_scored(standing.scored))


def entry_without_values(entry: Entry) -> Entry:
    """A reported entry of an experiment, without values."""
    return replace(entry, configuration=configuration_without_values(entry.configuration))


def _entry_standing(standing: EntryStanding) -> EntryStanding:
    return replace(standing, entry=entry_without_values(standing.entry))


def _timeline(found: Timeline) -> Timeline:
    outside = None if found.outside is None else _standing(found.outside)
    standings, entries = without_values(found.standings), without_values(found.entries)
    return replace(found, standings=standings, entries=entries, outside=outside)


def _alert(alert: StoredAlert) -> StoredAlert:
    reasons = [replace(reason, example="", trace_id="") for reason in alert.facts.reasons]
    return replace(alert, facts=replace(alert.facts, reasons=reasons))


def _incident(incident: Incident) -> Incident:
    notes = [
        replace(note, text=hidden_text(note.text)) if note.kind == "commented" else note for note in incident.notes
    ]
    return replace(incident, members=without_values(incident.members), notes=notes)


def _silence(silence: Silence) -> Silence:
    return replace(silence, comment=hidden_text(silence.comment))


_WITHOUT: dict[type, Callable[[Any], Any]] = {
    AgentRun: _run,
    Alignment: _alignment,
    Decision: decision_without_values,
    Difference: _difference,
    EntryStanding: _entry_standing,
    Evaluation: evaluation_without_values,
    Extraction: _extraction,
    Incident: _incident,
    Resource: _resource,
    Row: _row,
    Run: _stored_run,
    Said: _hidden_text,
    ScoredRun: _scored,
    SessionSums: _as_it_is,
    Silence: _silence,
    Span: _span,
    SpanEvent: _event,
    Standing: _standing,
    Step: _step,
    StoredAlert: _alert,
    Talk: _talk,
    Timeline: _timeline,
    ToolCall: call_without_values,
    TraceHead: _head,
    TraceResult: _result,
    TraceSummary: summary_without_values,
}


@cache
def _all_without() -> dict[type, Callable[[Any], Any]]:
    return _WITHOUT | {type_: without for part in web_parts() for type_, without in part.without_values.items()}
