"""What is fuzzed. A target takes any bytes and returns; what it raises is a finding."""

from collections.abc import Callable

from fuzz.hostile_spans import request
from google.protobuf.message import DecodeError

from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.assemble.settings import TracesSettings, without_bounds
from tracegrade.display import json_text
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse
from tracegrade.extract.decode.values import canonical, decode
from tracegrade.extract.extract import extract
from tracegrade.judge import judge
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.extraction import Extraction
from tracegrade.model.signal import Signal
from tracegrade.model.span import Span
from tracegrade.model.trace import Trace
from tracegrade.otlp.json import parse_document, read_request, to_json
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.trace_result import trace_result
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

SETTINGS = without_bounds(TracesSettings())
_CALLS = [{"name": "search", "args": {"q": {"$regex": "x"}}}]
RULES = RuleSet(
    Rule.model_validate({"id": f"a-rule-{scope}", "scope": scope, "evaluate": evaluate})
    for scope, evaluate in {
        "agent": [
            {"evaluator": "tool-call-order", "tool_calls_order": ["search", "book"]},
            {"evaluator": "tool-call-args", "tool_calls": _CALLS},
            {"evaluator": "tool-call-output", "tool_outputs": [{"name": "search", "output": "x"}]},
            {"evaluator": "tool-call-count", "tool_calls_count": {"search": ["=", 1]}},
        ],
        "trace": [{"evaluator": "tool-call-args", "name": "subset", "subset": True, "tool_calls": _CALLS}],
    }.items()
)


def traces(data: bytes) -> None:
    """Spans of the real dialects: decode -> assemble -> extract -> judge, in two orders."""
    payload = request(data).SerializeToString()
    spans = Decoder(attribute_filter_for(RULES, SETTINGS)).spans(payload)
    forth, back = _assembled(spans), _assembled(spans[::-1])
    assert _found(extract(forth)) == _found(extract(back)), "the order of spans matters"
    judgement = judge(forth, RULES)
    for evaluation in judgement.evaluations:
        assert evaluation.outcome != "error", evaluation.reason
        assert evaluation.score is None or 0 <= evaluation.score <= 1
        json_text(evaluation.details).encode()
    trace_result(forth, judgement, "live", "")


def wire(data: bytes) -> None:
    """Any bytes as a request."""
    try:
        spans = Decoder(attribute_filter_for(RULES, SETTINGS)).spans(data)
    except DecodeError:
        return
    for span in spans:
        extract(Trace(span.trace_id, "default", [span], "end_of_input", [], 1))


def values(data: bytes) -> None:
    """Any text as an attribute's value."""
    decoded = decode(data.decode("utf-8", "replace"))
    canonical(decoded.value)
    json_text(decoded.value).encode()


def otlp_json(data: bytes) -> None:
    """Any bytes as OTLP/JSON; what is read must come back the same."""
    try:
        message = read_request(Signal.TRACES, parse_document(data)).message
    except TraceGradeError:
        return
    again = read_request(Signal.TRACES, to_json(message)).message
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)


def rules(data: bytes) -> None:
    """Any text as a rule file."""
    try:
        RuleSet([validate(parse(data.decode("utf-8", "replace"), "rule.yaml"), Rule)])
    except TraceGradeError:
        return


def _assembled(spans: list[Span]) -> Trace:
    live = LiveTraces(SETTINGS, ClosedTraces(), "")
    live.add(list(spans), "default", 0, 0, 1)
    (trace,) = live.close_all()
    return trace


def _found(extraction: Extraction) -> str:
    return repr(
        (extraction.runs, extraction.calls, extraction.session, extraction.release, extraction.unread_tool_spans)
    )


TARGETS: dict[str, Callable[[bytes], None]] = {
    "traces": traces,
    "wire": wire,
    "values": values,
    "otlp_json": otlp_json,
    "rules": rules,
}
