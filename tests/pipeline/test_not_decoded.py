"""Traces that no rule judges are not decoded, and nothing but the cost is different for it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from build import each
from build.harness import Run, batches_of, packing
from build.otlp import (
    Content,
    agent_span,
    log_payload,
    log_records_of,
    logged_trace,
    otlp_log,
    otlp_span,
    spans_of,
    tool_span,
)
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.whole_results import whole_result
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(
    settle="1s",
    idle_timeout="3s",
    max_age="20s",
    end_attribute="app.done",
    tool_aliases={"create_order": ["*__create_order"]},
    ignore_scopes=["noise"],
)


def rule(rule_id: str, **fields: Any) -> Rule:
    evaluate = [{"evaluator": "tool-call-count", "tool_calls_count": {"create_order": ["==", 1]}}]
    return Rule.model_validate({"id": rule_id, "evaluate": evaluate, **fields})


RULES = RuleSet(
    [
        rule("shop", match={"service": "shop"}, sample=0.4),
        rule("shop-traces", scope="trace", match={"service": "sh?p", "agent": "order-*"}, sample=0.2),
        rule("billing", match={"service": ["bill*"], "environment": "prod"}, scope="trace"),
        rule("new", match={"release": "2.*"}, sample={"share": 0.1, "keep_failures": True}),
    ]
)
# Tools by their names: one that traces call, one that none calls, and one that is also known by a glob.
TOOLS = RuleSet(
    [
        rule("inventory", match={"service": "shop", "tools": "check_inventory"}, sample=0.6),
        rule("refund", match={"tools": ["refund_order", "issue_refund"]}, scope="trace"),
        rule("globbed", match={"release": "2.*", "tools": "check*"}, sample=0.2),
    ]
)
SESSIONS = RuleSet([*RULES.rules, rule("session", scope="session", match={"service": "shop"}, sample=0.1)])

RESOURCES: list[dict[str, str]] = [
    {"service.name": "shop"},
    {"service.name": "billing", "deployment.environment.name": "test"},
    {"service.name": "billing", "deployment.environment.name": "prod"},
    {"service.name": "other", "service.version": "1.0"},
    {"service.name": "other", "service.version": "2.1"},
    {},
]


def order_trace(trace: int, *session: str) -> list[Content]:
    """An agent run with calls, one of them under another name; the first spans have a session."""
    named = {"gen_ai__conversation__id": session[0]} if session else {}
    root = agent_span(trace, 1)
    call = tool_span(trace, 2, 1, "shop__create_order", '{"qty": 2}')
    for span, name in zip((root, call), session, strict=False):
        span.attributes.append(KeyValue(key="gen_ai.conversation.id", value=AnyValue(string_value=name)))
    return [
        root,
        call,
        tool_span(trace, 3, 1, "check_inventory", '{"sku": "A-1"}'),
        otlp_span(trace, 4, 999, **named),
        otlp_span(trace, 5, 1, my__tool="of an unknown framework", tool_input="x"),
    ]


MLFLOW = {"mlflow__spanType": '"CHAT_MODEL"'}
LANGWATCH = {"langwatch__span__type": "llm"}
CHAIN = {"openinference__span__kind": "CHAIN"}


def metadata_trace(trace: int, *metadata: tuple[dict[str, str], str]) -> list[Content]:
    """Spans with these attributes and metadata."""
    return [
        otlp_span(trace, number, number - 1 or None, **attributes, metadata=value)
        for number, (attributes, value) in enumerate(metadata, start=1)
    ]


# Traces in which LangChain, MLflow or LangWatch pass a session inside of other values, and the session that counts.
IN_METADATA: list[tuple[list[Content], str | None]] = [
    (metadata_trace(13, (CHAIN, '{"a": "no session"}'), (MLFLOW, '{"thread_id": "thread 1"}')), "thread 1"),
    (metadata_trace(14, (LANGWATCH, '{"thr\\u0065ad_id": "thread 2"}'), (CHAIN, '{"thread_id": ""}')), "thread 2"),
    (metadata_trace(15, (CHAIN, '{"thread_id": "of no model"}'), (MLFLOW, '["session_id"]')), None),
    (metadata_trace(16, (LANGWATCH, "{'userId': 'x', 'sessionId': 'written by Python'}")), "written by Python"),
]
SEVERAL_IN_METADATA = metadata_trace(17, (MLFLOW, '{"session_id": "one"}'), (MLFLOW, '{"session_id": "two"}'))

CONTENTS: list[Content] = [
    *(content for contents, _ in IN_METADATA for content in contents),
    *SEVERAL_IN_METADATA,
    *(content for trace in range(1, 9) for content in order_trace(trace)),
    *order_trace(9, "one session"),
    *order_trace(10, "one", "and another"),
    *logged_trace(11),
    *logged_trace(12),
    # The same span twice more with other contents: the later end wins, then the greater content.
    *(tool_span(trace, 3, 1, "create_order", f'{{"qty": {n}}}', end=5000) for trace in (1, 2, 3) for n in (5, 9)),
    # And with attributes that nothing reads, which are no other content.
    *(otlp_span(trace, 4, 999, unread="x") for trace in (1, 2, 3, 4)),
    OtlpSpan(trace_id=(1).to_bytes(16, "big"), span_id=b"noise678", name="noise"),
]
DONE = [otlp_span(trace, 6, 1) for trace in (5, 6)]
for span in DONE:
    span.attributes.append(KeyValue(key="app.done", value=AnyValue(bool_value=True)))
CONTENTS += DONE


def journal_of(batches: Iterable[tuple[float, list[Content]]], resources: dict[bytes, int]) -> list[Record]:
    """Records of (receive time in s, contents); each span has the resource of that number, by its trace and span id."""
    made: list[Record] = []
    position = 0
    for received_s, contents in batches:
        request = ExportTraceServiceRequest()
        for span in spans_of(contents):
            group = request.resource_spans.add()
            described = RESOURCES[resources[span.trace_id + span.span_id]]
            group.resource.attributes.extend(
                KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in described.items()
            )
            scope = group.scope_spans.add()
            scope.scope.name = "noise" if span.name == "noise" else "agent-sdk"
            scope.spans.append(span)
        logs = log_records_of(contents)
        parts = [
            (Signal.TRACES, len(request.resource_spans), request.SerializeToString()),
            (Signal.LOGS, len(logs), log_payload(logs)),
        ]
        for signal, items, data in parts:
            if items:
                end = position + len(data)
                received_ns = round(received_s * 1e9)
                made.append(Record(position, end, received_ns, "default", signal, Encoding.PROTOBUF, items, data))
                position = end
    return made


def drawn_journal(data: st.DataObject) -> list[Record]:
    again = data.draw(st.lists(st.sampled_from(CONTENTS), max_size=6), label="sent again")
    arrivals = data.draw(st.permutations([*CONTENTS, *again]), label="arrival order")
    # Most traces are of one service; in some, each span may be of any.
    of_trace = {n: data.draw(st.sampled_from([*range(len(RESOURCES)), None]), label="resource") for n in range(1, 18)}
    resources = {}
    for span in spans_of(CONTENTS):
        number = of_trace[int.from_bytes(span.trace_id, "big")]
        if number is None:
            number = data.draw(st.integers(0, len(RESOURCES) - 1), label="resource of a span")
        resources[span.trace_id + span.span_id] = number
    return journal_of(batches_of(arrivals, data), resources)


def check_same(lazy: Run, full: Run) -> set[str]:
    """That both runs stored the same; the reasons for which traces were not decoded."""
    assert lazy.store.canonical() == full.store.canonical()
    assert lazy.judge.intake.span_dispositions == full.judge.intake.span_dispositions
    assert lazy.judge.intake.log_record_dispositions == full.judge.intake.log_record_dispositions
    assert lazy.store.traces.keys() == full.store.traces.keys()
    reasons = set()
    for key, kept in lazy.store.traces.items():
        other = full.store.traces[key]
        assert seen_of(kept) == seen_of(other)
        if kept.trace.not_decoded is not None:
            reason = kept.trace.not_decoded.reason
            reasons.add(reason)
            assert {decision.kind for decision in other.decisions} <= {"sampled_out"}
            assert reason == "sampled_out" or not other.decisions
    return reasons


def seen_of(result: TraceResult) -> tuple[object, ...]:
    """Everything that is stored of a trace, as far as both ways must agree."""
    whole = whole_result(result.packed, result.spans)
    spans = decode_spans(result.spans) if result.spans else None
    decisions = [decision for decision in whole.decisions if decision.kind != "sampled_out"]
    return replace(whole.trace, not_decoded=None), whole.tool_calls, decisions, spans


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_what_is_not_decoded_is_stored_as_if_it_were(data: st.DataObject) -> None:
    rule_set = data.draw(st.sampled_from([RULES, TOOLS, SESSIONS]), label="rules")
    journal = drawn_journal(data)
    traces = packing(SETTINGS, data)
    if rule_set is TOOLS:
        traces = traces.model_copy(update={"tool_aliases": {}})
    if data.draw(st.booleans(), label="late ones are too late"):
        traces = traces.model_copy(update={"reopen_for": 4.0})
    runs = [Run(rule_set, traces), Run(rule_set, traces, decodes_all=True)]
    seen = 0
    while seen < len(journal):
        seen += data.draw(st.integers(1, 4), label="durable records more")
        before_commit = data.draw(st.booleans(), label="killed before the commit")
        killed = data.draw(st.booleans(), label="killed")
        for run in runs:
            run.read(journal[:seen], kill_before_commit=before_commit)
            if killed:
                run.kill()
            else:
                run.tick(journal[min(seen, len(journal)) - 1].received_ns / 1e9)
    for run in runs:
        run.read(journal)
        run.end()
    check_same(*runs)


def test_traces_are_left_undecoded_for_both_reasons() -> None:
    contents = [content for trace in range(1, 200) for content in order_trace(trace, f"session {trace}")]
    resources = {span.trace_id + span.span_id: span.trace_id[-1] % len(RESOURCES) for span in spans_of(contents)}
    journal = journal_of([(0.0, contents)], resources)
    runs = [Run(RULES, SETTINGS), Run(RULES, SETTINGS, decodes_all=True)]
    for run in runs:
        run.read(journal)
        run.end()
    assert check_same(*runs) == {"not_matched", "sampled_out"}
    assert not any(judged.trace.not_decoded for judged in runs[1].store.traces.values())
    sessions = {judged.trace.session for judged in runs[0].store.traces.values() if judged.trace.not_decoded}
    assert len(sessions) > 10
    assert None not in sessions


WITHOUT_ALIASES = SETTINGS.model_copy(update={"tool_aliases": {}})


def judged_alone(
    contents: list[Content], rule_set: RuleSet, traces: TracesSettings = SETTINGS, *, decodes_all: bool = False
) -> TraceResult:
    run = Run(rule_set, traces, decodes_all=decodes_all)
    run.read(journal_of([(0.0, contents)], {content.trace_id + content.span_id: 5 for content in spans_of(contents)}))
    run.end()
    (judged,) = run.store.traces.values()
    return judged


@each("masked", ["[redacted]", "__REDACTED__"])
def test_a_session_that_its_sender_masked_is_none_without_decoding_too(masked: str) -> None:
    contents = order_trace(30, masked)
    assert judged_alone(contents, RULES).trace.session is None
    assert judged_alone(contents, RULES, decodes_all=True).trace.session is None
    assert judged_alone(order_trace(31, "talk 1"), RULES).trace.session == "talk 1"


@each(("contents", "session"), IN_METADATA, ids=["mlflow", "langwatch", "of no model", "python"])
def test_a_session_inside_of_metadata_is_found_without_decoding(contents: list[Content], session: str | None) -> None:
    judged = judged_alone(contents, RULES)
    assert judged.trace.not_decoded is not None
    assert judged.trace.session == session
    assert judged_alone(contents, RULES, decodes_all=True).trace.session == session


def test_a_trace_with_several_sessions_in_its_metadata_is_decoded() -> None:
    judged = judged_alone(SEVERAL_IN_METADATA, RULES)
    assert judged.trace.not_decoded is None
    assert judged.trace.session == "one"


def test_what_log_records_say_may_decide_whose_metadata_counts() -> None:
    contents = [*IN_METADATA[0][0], otlp_log(13, 2, "gen_ai.choice", message={"content": "yes"})]
    assert judged_alone(contents, RULES).trace.not_decoded is None


@each(
    ("span", "is_decoded"),
    [
        (tool_span(1, 2, 1, "check_inventory"), False),
        (tool_span(1, 2, 1, "refund_order"), True),
        (otlp_span(1, 2, 1, note="it did not refund_order"), True),
        (otlp_span(1, 2, 1, gen_ai__output__messages='[{"name": "\\u0072efund_order"}]'), True),
    ],
    ids=["another tool", "the tool", "its name alone", "an escape that may stand for it"],
)
def test_a_trace_is_decoded_where_the_name_of_a_tool_may_stand_in_it(span: OtlpSpan, is_decoded: bool) -> None:
    judged = judged_alone([agent_span(1, 1), span], TOOLS, WITHOUT_ALIASES)
    assert (judged.trace.not_decoded is None) == is_decoded


def test_with_aliases_names_of_tools_tell_nothing() -> None:
    assert judged_alone([agent_span(1, 1)], TOOLS).trace.not_decoded is None


def test_a_trace_is_decoded_for_a_name_that_dialects_give() -> None:
    """The name of a span is `FinalAnswerTool.__call__`."""
    rules = RuleSet([rule("ended", match={"tools": "final_answer"})])
    assert judged_alone([agent_span(1, 1)], rules, WITHOUT_ALIASES).trace.not_decoded is None
