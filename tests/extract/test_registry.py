"""What must hold for every trace: any order of spans, any content, several traces."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import build
from build import each, span_id
from extract.test_cases import CASES, records
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.settings import TracesSettings
from tracegrade.display import json_text
from tracegrade.extract.extract import extract
from tracegrade.extract.registry import OURS
from tracegrade.model.trace import SPAN_ORDER, Trace
from tracegrade.otlp.from_spans import requests_of
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.rule_set import RuleSet


def read_case(path: Path) -> Trace:
    case = build.read_case(path.read_text(encoding="utf-8"))
    return build.trace(case["spans"], log_records=case.get("log_records", ()))


@each("path", CASES, ids=lambda path: path.stem)
def test_the_order_of_spans_does_not_matter(path: Path) -> None:
    trace = read_case(path)
    expected = records(extract(trace))
    for seed in range(5):
        shuffled = random.Random(seed).sample(trace.spans, len(trace.spans))
        assert records(extract(replace(trace, spans=shuffled))) == expected


def test_extracting_changes_nothing_in_the_trace() -> None:
    for path in CASES:
        trace, untouched = read_case(path), read_case(path)
        extract(trace)
        assert trace == untouched


_PRINT_RECORDS = """
import sys
sys.path.insert(0, sys.argv[1])
from extract.test_registry import read_case
from extract.test_cases import CASES, records
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.settings import TracesSettings
from tracegrade.display import json_text
from tracegrade.extract.extract import extract
for path in CASES:
    print(json_text(records(extract(read_case(path)))))
"""


def test_records_are_the_same_under_every_hash_seed() -> None:
    """This process has drawn its own."""
    printed = subprocess.run(
        [sys.executable, "-c", _PRINT_RECORDS, str(Path(__file__).parents[1])],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert printed.splitlines() == [json_text(records(extract(read_case(path)))) for path in CASES]


def test_assembly_keeps_what_dialects_read() -> None:
    """Cases hold whole spans; what is read from them must be the same after assembly dropped the rest."""
    for path in CASES:
        trace = read_case(path)
        expected = records(extract(trace))
        decoder = Decoder(attribute_filter_for(RuleSet([]), TracesSettings()))
        spans, log_records = [], []
        for request in requests_of(trace):
            if hasattr(request, "resource_spans"):
                spans += decoder.spans(request.SerializeToString())
            else:
                log_records += decoder.log_records(request.SerializeToString())
        kept = replace(trace, spans=sorted(spans, key=SPAN_ORDER), log_records=log_records)
        assert records(extract(kept)) == expected, path


_KINDS = ["TOOL", "LLM", "AGENT", "CHAIN", "execute_tool", "chat", "invoke_agent", "tools/call", "retriever"]
_SNIPPETS = [
    '[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a","arguments":{}}]}]',
    '[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":null}]}]',
    '[{"role":["x"],"parts":{"a":1},"tool_calls":[{"function":{"name":7}},{"name":"b"}],"content":[null,{"type":{}}]}]',
    '{"type":"tool","data":{"content":null,"tool_call_id":{}}}',
    '{"args":{},"kwargs":{"a":1}}',
    '{"kwargs":{},"args":[1,2]}',
    '{"name":"x","arguments":"{"}',
    "content='x' tool_call_id='c1'",
    "handoff to x",
]
_values = st.one_of(
    st.sampled_from(_KINDS + _SNIPPETS),
    st.text(max_size=20),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.sampled_from(_KINDS), max_size=2),
    st.dictionaries(st.sampled_from(["content", "data", "type", "kwargs", "name"]), st.text(max_size=5), max_size=3),
)
_keys = st.sampled_from(
    [
        *sorted(OURS.attributes),
        "llm.output_messages.0.message.role",
        "llm.output_messages.x.message.role",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
        "llm.output_messages.0.message.tool_calls.9.tool_call.id",
        "llm.output_messages.0.message.contents.1.message_content.text",
        "llm.input_messages.3.message.tool_call_id",
        "llm.input_messages.3.message.content",
        "llm.tools.0.tool.json_schema",
        "llm.output_messages..message.",
    ]
)
_attributes = st.dictionaries(_keys, _values, max_size=8)
_spans = st.fixed_dictionaries(
    {"attributes": _attributes},
    optional={
        "parent": st.integers(1, 6),
        "name": st.sampled_from(["execute_tool x", "handoff to y", "invoke_agent z", "tools/call", ""]),
        "kind": st.sampled_from(["internal", "server", "client"]),
        "scope": st.sampled_from(["one", "two"]),
        "status": st.sampled_from(["ok", "error", "boom"]),
        "at": st.tuples(st.integers(0, 9), st.integers(0, 9)).map(list),
        "events": st.lists(st.dictionaries(st.sampled_from(sorted(OURS.events)), _attributes, max_size=2), max_size=2),
    },
)


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(_spans, max_size=6))
def test_any_spans_give_an_extraction(spans: list[dict[str, Any]]) -> None:
    trace = build.trace([{"id": place + 1, **span} for place, span in enumerate(spans)])
    extraction = extract(trace)
    json_text(records(extraction))
    assert bool(extraction.runs) == bool(spans)
    # One span is at most one tool call, and every call is in exactly one run.
    from_spans = [call.span_id for call in extraction.calls if call.read_from != "message"]
    assert len(from_spans) == len(set(from_spans))
    in_runs = [id(call) for run in extraction.runs for call in run.calls]
    assert sorted(in_runs) == sorted(map(id, extraction.calls))
    assert records(extract(replace(trace, spans=trace.spans[::-1]))) == records(extraction)


def test_a_long_chain_of_nested_tools_is_read_in_linear_time() -> None:
    def chain(length: int) -> Trace:
        return build.trace(
            [
                {"id": n, "parent": n - 1 or None, "at": [n, 10_000], "attributes": {"tool.name": f"t{n}"}}
                for n in range(1, length + 1)
            ]
        )

    assert extract(chain(3000)).calls[-1].depth == 2999


def test_parents_in_a_circle_are_read() -> None:
    trace = build.trace([{"id": n, "parent": n % 3 + 1, "attributes": {"tool.name": "t"}} for n in (1, 2, 3)])
    assert [call.span_id for call in extract(trace).calls] == [span_id(1), span_id(2), span_id(3)]


def test_an_empty_trace_has_neither_runs_nor_calls() -> None:
    extraction = extract(build.trace([]))
    assert (extraction.runs, extraction.calls, extraction.session) == ([], [], None)


def test_release_is_the_version_of_the_service() -> None:
    assert extract(build.trace([{"id": 1}])).release == "1.2.3"


def test_a_tool_span_without_a_name_is_reported() -> None:
    trace = build.trace([{"id": 5, "name": "work", "attributes": {"gen_ai.operation.name": "execute_tool"}}])
    assert extract(trace).unread_tool_spans == [span_id(5)]
