"""Places by what they hold, in the words of every dialect."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import build
from build import each, read_case
from build.planted_requests import CASES
from build.redaction import redacted
from extract import test_shape_forms
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.extract import extract
from tracegrade.model.extraction import Extraction
from tracegrade.model.signal import Signal
from tracegrade.model.trace import SPAN_ORDER, Trace
from tracegrade.otlp.from_spans import requests_of
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.rule_set import RuleSet

# The span of a tool whose content was moved to a log event: nothing in the event says that it is of a tool.
NOT_BY_PLACE = {"gen_ai/content_moved_to_log_events", "openinference/content_moved_to_log_events"}
# What their calls are read from is content, or a call is told from another by its content.
NOT_LISTED = {
    "shape/calls_of_lost_spans",
    "crewai_openllmetry/messages_of_a_task",
    "gen_ai/message_repr_of_a_list",
    "gen_ai/nested_same_tool",
    "gen_ai/results_in_objects",
    "gen_ai/silent_call_beside_others",
    "llama_index/messages_of_model_calls",
    "llama_index/workflow_steps",
    "openinference/agent_nodes_of_a_graph",
    "openinference/tool_message_shapes",
    "openinference_haystack/agent_run",
    "pydantic_ai/list_of_texts",
    "pydantic_ai/output_tool",
    "shape/name_beside_the_kind_of_a_span",
    "shape/name_of_the_first_tool",
    "shape/roles_as_keys_beside_calls",
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def read_again(trace: Trace, **settings: Any) -> Extraction:
    """What is read of a trace that was redacted on receipt."""
    decoder = Decoder(attribute_filter_for(RuleSet([]), TracesSettings()))
    spans, records = [], []
    for request in requests_of(trace):
        is_spans = hasattr(request, "resource_spans")
        found = redacted(request, Signal.TRACES if is_spans else Signal.LOGS, **settings).SerializeToString()
        if is_spans:
            spans += decoder.spans(found)
        else:
            records += decoder.log_records(found)
    return extract(
        Trace(trace.trace_id, "default", sorted(spans, key=SPAN_ORDER), "settled", [], 1, log_records=records)
    )


def shown(extraction: Extraction) -> list[tuple[str, Any, Any, Any]]:
    return [(call.name, call.arguments, call.output, call.call_id) for call in extraction.calls]


@each("path", [one for one in CASES if name_of(one) not in NOT_BY_PLACE], ids=name_of)
def test_arguments_and_outputs_go_by_these_words(path: Path) -> None:
    case = read_case(path.read_text(encoding="utf-8"))
    trace = build.trace(case["spans"], log_records=case.get("log_records", ()))
    for part in ("arguments", "outputs"):
        field, status = ("arguments", "arguments_status") if part == "arguments" else ("output", "output_status")
        found = read_again(trace, detectors=[], places=[{part: "*", "action": "mask"}])
        for call in found.calls:
            found_value, found_status = getattr(call, field), getattr(call, status)
            assert found_value in (None, {}, [], "") or found_status in ("redacted", "truncated"), (part, call)


@each("provider", list(test_shape_forms.ASKED), ids=lambda provider: provider.__name__)
def test_what_shape_reads_of_texts_and_events_goes_by_the_same_words(provider: Any) -> None:
    for model, execution in product(("one text", "one event", "two events"), ("none", "one text", "events")):
        trace = build.trace(test_shape_forms.traced(provider, model, execution))
        for part, field in (("arguments", "arguments"), ("outputs", "output")):
            found = read_again(trace, detectors=[], places=[{part: "*", "action": "mask"}])
            if provider is not test_shape_forms.langchain or part == "outputs":  # the messages stand under `kwargs`
                usual = read_again(trace, detectors=[])
                assert [call.name for call in found.calls] == [call.name for call in usual.calls]
            assert {json.dumps(getattr(call, field)) for call in found.calls} <= {"null", "{}"}, (model, execution)


def test_a_call_whose_output_was_dropped_is_no_request_written_as_a_span() -> None:
    asked = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}]}]
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(asked)}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
    spans = [
        {"id": 1, "attributes": model},
        {"id": 2, "parent": 1, "attributes": {**tool, "gen_ai.tool.call.result": "found"}},
        {"id": 3, "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weigh"}},
    ]
    found = read_again(build.trace(spans), detectors=[], places=[{"outputs": "*", "action": "drop"}])
    assert [call.name for call in found.calls] == ["find", "weigh"]


@each("path", CASES, ids=name_of)
def test_with_an_allow_list_the_same_calls_are_read(path: Path) -> None:
    case = read_case(path.read_text(encoding="utf-8"))
    trace = build.trace(case["spans"], log_records=case.get("log_records", ()))
    usual = read_again(trace, detectors=[])
    found = read_again(trace, detectors=[], default="allow_listed")
    read = [[(call.name, call.call_id) for call in one.calls] for one in (found, usual)]
    assert (read[0] == read[1]) is (name_of(path) not in NOT_LISTED)


def test_an_argument_under_its_own_name_goes_by_that_name() -> None:
    (path,) = [path for path in CASES if name_of(path) == "shape/arguments_by_their_names"]
    trace = build.trace(read_case(path.read_text(encoding="utf-8"))["spans"])
    call, other = read_again(trace, detectors=[], places=[{"arguments": "seat", "action": "mask"}]).calls
    assert call.arguments == {"seat": "[redacted]", "meals": ["soup"]}
    assert other.arguments == {"amount": 2.5}
