"""Content that the spans of stored traces record or leave out, by service and scope, or service and agent."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from tracegrade.assemble.decode import UnreadLogs
from tracegrade.display import count
from tracegrade.doctor.finding import Finding, Level, share
from tracegrade.extract.across import fold_across
from tracegrade.extract.extract import claim
from tracegrade.extract.how_read import BY_SHAPE_ADVICE, UnreadSpan, spans_not_read
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.extract.unread import keys_of, looks_like_gen_ai
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall, ValueStatus
from tracegrade.semconv import MCP_METHOD

_SKEW_NS = 1_000_000_000  # networks and batching explain less
_AHEAD_NS = 5_000_000_000

# How content is switched on, by what scope names contain; the first that fits. Source: each project's documentation.
_CONTENT_SWITCHES = (
    ("openinference", "unset OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS, or set them to false"),
    ("claude_code", "OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1"),
    ("pydantic", "InstrumentationSettings(include_content=True)"),
    ("gcp.vertex.agent", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"),
    ("semantic_kernel", "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"),
    ("agent_framework", "configure_otel_providers(enable_sensitive_data=True)"),
    ("microsoft.", "EnableSensitiveData = true in UseOpenTelemetry"),
    ("spring", "spring.ai.tools.observations.include-content=true"),
    ("autogen", "no setting: AutoGen core does not record arguments; use an instrumentation that does"),
    ("opentelemetry.instrumentation.", "TRACELOOP_TRACE_CONTENT=true (OpenLLMetry), or {gen_ai}"),
    ("", "{gen_ai}, or what its documentation says"),
)
_GEN_AI_SWITCH = (
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY with "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental (older releases: =true)"
)

_FIXED_BY = {
    "truncated": "raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT at the sender",
    "elsewhere": "have the sender record it in the span as well: TraceGrade does not follow references",
    "redacted": "find out what masks them: the instrumentation (such as OPENINFERENCE_HIDE_INPUTS), a collector, or "
    "'redaction' in the settings of serve",
}

_LACKS = {
    "absent": "not recorded",
    "elsewhere": "stored elsewhere",
    "redacted": "masked",
    "truncated": "cut off",
    "text": "not readable as JSON",
}

_MAX_TOOLS = 5

Place = tuple[str, str]  # service, scope
Said = tuple[Level, str, str, str, Mapping[str, JsonValue]]  # level, where, found, advice, evidence


@dataclass(slots=True)
class _Counted:
    """The counts of one service and scope."""

    spans: int = 0
    read: int = 0
    model_spans: int = 0
    traces: set[bytes] = field(default_factory=set)
    unread: dict[str, list[tuple[UnreadSpan, Span]]] = field(default_factory=dict)  # by reason
    cut_spans: int = 0
    by_shape: Counter[str] = field(default_factory=Counter)  # calls that no dialect reads, by tool


@dataclass(slots=True)
class _Recorded:
    """The share of content that one agent at one service records: of ``arguments``, ``results`` and ``prompts``."""

    whole: Counter[str] = field(default_factory=Counter)
    lacking: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)  # by status
    scopes: Counter[str] = field(default_factory=Counter)  # of the spans without it

    def add(self, what: str, status: ValueStatus | None, scope: str) -> None:
        self.whole[what] += 1
        if status is not None:
            self.lacking[what] += 1
            self.why[status] += 1
            self.scopes[scope] += 1


class Content:
    """Takes extractions, gives findings."""

    def __init__(self) -> None:
        self._places: dict[Place, _Counted] = {}
        self._recorded: dict[tuple[str, str], _Recorded] = {}  # by service and agent
        self.called: set[str] = set()
        """The services of which a tool call was read."""
        self._doubles: Counter[tuple[str, str, str]] = Counter()  # service, scope that counts, scope that does not
        self._skews: dict[tuple[str, str], tuple[int, Span]] = {}  # two services, the largest difference
        self._ahead: dict[str, int] = {}  # service -> how far a span's end lies after its receipt
        self._extractions: list[Extraction] = []

    def add(self, extraction: Extraction) -> None:
        """Take in one trace."""
        spans = {span.span_id.hex(): span for span in extraction.trace.spans}
        for span in spans.values():
            self._add_span(span)
            self._compare_clocks(span, spans.get(span.parent_span_id.hex()))
        for unread in spans_not_read(extraction):
            span = spans[unread.span_id]
            self._at(span).unread.setdefault(unread.reason, []).append((unread, span))
        for call in extraction.calls:
            if (shown := spans.get(call.span_id)) is not None:
                self._add_call(call, shown, spans)
        for run in extraction.runs:
            self._add_run(run, spans)
        received_ns = extraction.trace.last_received_ns
        for span in spans.values() if received_ns else ():
            if (ahead := span.end_ns - received_ns) > _AHEAD_NS:
                self._ahead[span.resource.service] = max(ahead, self._ahead.get(span.resource.service, 0))
        self._extractions.append(extraction)

    def _at(self, span: Span) -> _Counted:
        return self._places.setdefault((span.resource.service, span.scope), _Counted())

    def _add_span(self, span: Span) -> None:
        counted, claimed = self._at(span), claim(span)
        counted.spans += 1
        counted.read += claimed is not None
        counted.cut_spans += span.dropped_attributes_count > 0
        if claimed is not None and claimed[1] in ("chat", "agent"):
            counted.model_spans += 1
            counted.traces.add(span.trace_id)

    def _add_call(self, call: ToolCall, shown: Span, spans: dict[str, Span]) -> None:
        recorded = self._of_agent(shown, call.agent)
        recorded.add("arguments", call.lack_of("arguments", in_part=True), shown.scope)
        recorded.add("results", call.lack_of("output", in_part=True), shown.scope)
        self.called.add(shown.resource.service)
        if call.dialect == SHAPE.name:
            self._at(shown).by_shape[call.name] += 1
        for other in filter(None, map(spans.get, call.also_seen_in)):
            # An MCP client and its server show one call by design.
            if other.scope != shown.scope and MCP_METHOD not in other.attributes | shown.attributes:
                self._doubles[shown.resource.service, shown.scope, other.scope] += 1

    def _of_agent(self, span: Span, agent: str) -> _Recorded:
        return self._recorded.setdefault((span.resource.service, agent), _Recorded())

    def _add_run(self, run: AgentRun, spans: dict[str, Span]) -> None:
        if run.calls and (shown := spans.get(run.span_id)) is not None:
            self._of_agent(shown, run.agent).add("prompts", "absent" if run.prompt is None else None, shown.scope)

    def _compare_clocks(self, span: Span, parent: Span | None) -> None:
        """Note spans that start before a parent that another service sent: one of the two clocks is wrong."""
        if parent is None or parent.resource.attributes == span.resource.attributes:
            return
        early = parent.start_ns - span.start_ns
        services = (parent.resource.service, span.resource.service)
        if early > _SKEW_NS and early > self._skews.get(services, (0, span))[0]:
            self._skews[services] = (early, span)

    def findings(self) -> Iterator[Finding]:
        """Findings by check."""
        checks = (
            self._unread,
            self._by_shape,
            self._silent,
            self._without_content,
            self._cut,
            self._shown_twice,
            self._clocks,
        )
        for check in checks:
            yield from check()

    def _unread(self) -> Iterator[Finding]:
        found = False
        for (service, scope), counted in sorted(self._places.items()):
            for reason, spans in counted.unread.items():
                found = True
                unread, example = spans[0]
                keys: list[JsonValue] = [*keys_of(example)]
                yield Finding(
                    "unread spans",
                    "warning",
                    _place(service, scope),
                    f"{share(len(spans), counted.spans)} spans are not read, such as {example.name!r} with "
                    f"{', '.join(map(str, keys)) or 'no attributes'}: {reason}",
                    unread.advice,
                    {
                        "spans": len(spans),
                        "reason": reason,
                        "trace_id": example.trace_id.hex(),
                        "span_id": example.span_id.hex(),
                        "span_name": example.name,
                        "attribute_keys": keys,
                    },
                )
            if counted.unread:
                continue
            if not counted.read and not counted.by_shape and looks_like_gen_ai(scope):
                found = True
                yield Finding(
                    "unread spans",
                    "note",
                    _place(service, scope),
                    f"none of {counted.spans} spans is read, and the scope seems to be of models or agents",
                    "see one with 'tracegrade traces show'; if it calls tools, write a dialect for it",
                    {"spans": counted.spans},
                )
        if not found:
            yield Finding("unread spans", "ok", "", "every span that looks like an agent's work is read")

    def _by_shape(self) -> Iterator[Finding]:
        for (service, scope), counted in sorted(self._places.items()):
            if counted.by_shape:
                calls = counted.by_shape.total()
                yield Finding(
                    "read by shape",
                    "note",
                    _place(service, scope),
                    f"{count(calls, 'call')} of {', '.join(sorted(counted.by_shape)[:_MAX_TOOLS])} in no dialect that "
                    "is known, read by what their keys and values look like",
                    f"look whether the calls are right ('tracegrade traces show'); {BY_SHAPE_ADVICE}",
                    {"calls": calls, "tools": [*sorted(counted.by_shape)[:_MAX_TOOLS]]},
                )

    def _silent(self) -> Iterator[Finding]:
        for (service, scope), counted in sorted(self._places.items()):
            if counted.model_spans and service not in self.called and not counted.unread:
                yield Finding(
                    "no tool calls",
                    "note",
                    _place(service, scope),
                    f"{len(counted.traces)} traces with model calls or agent runs, and no tool call in any of them",
                    "fine if the agent has no tools; else its tool spans are not sent, or content is not recorded: "
                    + _switch(scope),
                    {"traces": len(counted.traces)},
                )

    def _without_content(self) -> Iterator[Finding]:
        found = False
        for (service, agent), recorded in sorted(self._recorded.items()):
            if not recorded.lacking:
                continue
            found = True
            shares = ", ".join(
                f"{what} of {share(whole - recorded.lacking[what], whole)} {'runs' if what == 'prompts' else 'calls'}"
                for what, whole in recorded.whole.items()
            )
            (why, _), *_ = recorded.why.most_common()
            (scope, _), *_ = recorded.scopes.most_common()
            lacks = ", ".join(f"{times} {_LACKS.get(status, status)}" for status, times in recorded.why.most_common())
            said: Said = (
                "warning" if 2 * recorded.lacking["arguments"] > recorded.whole["arguments"] else "note",
                f"{service or 'an unnamed service'}, agent {agent}" if agent else service or "an unnamed service",
                f"recorded are {shares}; missing: {lacks}",
                "rules that read what is missing answer not_evaluable; to record it: "
                + _FIXED_BY.get(why, _switch(scope)),
                {what: {"of": whole, "lacking": recorded.lacking[what]} for what, whole in recorded.whole.items()},
            )
            of_calls = recorded.lacking["arguments"] + recorded.lacking["results"]
            yield Finding("content", *said) if of_calls else Finding("prompts", *said)
        if not found:
            yield Finding("content", "ok", "", "arguments, results and prompts are recorded, of every agent")

    def _cut(self) -> Iterator[Finding]:
        for (service, scope), counted in sorted(self._places.items()):
            if counted.cut_spans:
                text = f"{share(counted.cut_spans, counted.spans)} spans lost attributes at the sender"
                advice = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT (128 by default) at the sender"
                yield Finding("content", "warning", _place(service, scope), text, advice)

    def _shown_twice(self) -> Iterator[Finding]:
        fold_across(self._extractions)
        scopes = {
            f"{extraction.trace.trace_id.hex()}/{span.span_id.hex()}": span
            for extraction in self._extractions
            for span in extraction.trace.spans
        }
        across: Counter[tuple[str, str, str]] = Counter()
        for extraction in self._extractions:
            for call in extraction.calls:
                kept = scopes.get(call.duplicate_of or "")
                dropped = scopes.get(f"{extraction.trace.trace_id.hex()}/{call.span_id}")
                if kept is not None and dropped is not None:
                    across[dropped.resource.service, kept.scope, dropped.scope] += 1
        for (service, kept_scope, scope), calls in sorted(self._doubles.items()):
            yield Finding(
                "doubles",
                "note",
                service,
                f"{calls} calls are shown by {kept_scope!r} and by {scope!r}; each counts once",
                f"to save the work, set traces.ignore_scopes: [{scope}]",
                {"calls": calls, "ignore_scopes": [scope]},
            )
        for (service, kept_scope, scope), calls in sorted(across.items()):
            yield Finding(
                "doubles",
                "warning",
                service,
                f"{calls} calls are in two traces, by {kept_scope!r} and by {scope!r}, and judged in both",
                f"set traces.ignore_scopes: [{scope}]",
                {"calls": calls, "ignore_scopes": [scope]},
            )
        if not self._doubles and not across:
            yield Finding("doubles", "ok", "", "no call is shown by two instrumentations")

    def _clocks(self) -> Iterator[Finding]:
        for (parent, child), (early, span) in sorted(self._skews.items(), key=lambda item: item[0]):
            yield Finding(
                "clocks",
                "warning",
                f"{parent}, {child}",
                f"spans of {child} start up to {early / 1e9:.3g} s before the spans of {parent} that enclose them",
                "set the clocks of both by NTP: the order of calls is judged by their start",
                {"trace_id": span.trace_id.hex(), "span_id": span.span_id.hex(), "early_s": round(early / 1e9, 3)},
            )
        for service, ahead in sorted(self._ahead.items()):
            text = f"spans end up to {ahead / 1e9:.3g} s after they were received"
            advice = "set the clocks of that service and of this machine by NTP"
            yield Finding("clocks", "warning", service, text, advice, {"ahead_s": round(ahead / 1e9, 3)})
        if not self._skews and not self._ahead:
            yield Finding("clocks", "ok", "", "no span starts before its parent, or ends after it was received")


def incomplete(extractions: Iterable[Extraction]) -> Iterator[Finding]:
    """Traces that closed with something missing, or that a bound cut short, by service."""
    traces: Counter[str] = Counter()
    missing: dict[str, Counter[str]] = {}
    cut: Counter[tuple[str, str]] = Counter()
    examples: dict[str, str] = {}
    for extraction in extractions:
        trace = extraction.trace
        service = trace.resource.service
        traces[service] += 1
        if trace.missing:
            missing.setdefault(service, Counter())["root" if "root" in trace.missing else "parents"] += 1
            examples.setdefault(service, trace.trace_id.hex())
        if trace.cut_by:
            cut[service, trace.cut_by] += 1
    for service, counts in sorted(missing.items()):
        yield Finding(
            "incomplete",
            "warning" if counts.total() > 0.05 * traces[service] else "note",
            service or "an unnamed service",
            f"{share(counts.total(), traces[service])} traces are incomplete: {counts['root']} without their root, "
            f"{counts['parents']} with spans whose parent never arrived; they do not count in pass rates and alerts",
            "check that every service on the way sends here, unsampled, and that its processes flush their "
            "exporters when they end",
            {"traces": traces[service], "trace_id": examples[service], **counts},
        )
    for (service, bound), times in sorted(cut.items()):
        text = f"{share(times, traces[service])} traces were cut short by {bound}"
        yield Finding("incomplete", "warning", service, text, "raise this bound, in the settings under traces")
    if not missing and not cut:
        yield Finding("incomplete", "ok", "", f"{traces.total()} traces, none incomplete")


def unread_logs(found: Mapping[UnreadLogs, int], called: Container[str]) -> Iterator[Finding]:
    """One finding for each sender of log records that look like tool calls and name no span.

    Args:
        found: how many there are of each kind.
        called: services of which tool calls were read: such log records may say the same again.
    """
    senders: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
    for logs, number in found.items():
        senders.setdefault((logs.service, logs.scope, logs.lacks), []).append((logs.name, number))
    for (service, scope, lacks), names in sorted(senders.items()):
        number = sum(each for _, each in names)
        example, _ = max(names, key=_NUMBER)
        event_names: list[JsonValue] = [*sorted(name for name, _ in names)]
        yield Finding(
            "unread log records",
            "note" if service in called else "warning",
            _place(service, scope),
            f"{count(number, 'log record')} of tool calls without a {lacks}, such as {example!r}: no call is read from "
            "such records",
            "fine where its spans show the same calls; else have the sender write spans for its tools, or write these "
            "log records within a span",
            {"log_records": number, "lacks": lacks, "event_names": event_names},
        )


_NUMBER = itemgetter(1)


def _place(service: str, scope: str) -> str:
    return f"{service or 'an unnamed service'}, scope {scope}" if scope else f"{service or 'an unnamed service'}"


def _switch(scope: str) -> str:
    name = scope.lower()
    return next(text for part, text in _CONTENT_SWITCHES if part in name).replace("{gen_ai}", _GEN_AI_SWITCH)
