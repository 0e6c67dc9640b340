"""Traces that a rule has judged live, and the rule as it is now: what is backtested."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from build.judged_traces import evaluation, judged, spans
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.model.span import Resource
from tracegrade.model.trace_result import TraceResult

RULE = """\
id: order-checked
title: An order was made twice
level: high
match: {tools: [create_order]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {create_order: ['<=', 1]}}]
alert: [{below: 0.9, min_samples: 5}]
"""
SINCE = ("--since", "2020-01-01", "--until", "2026-01-03")


def stored(
    number: int,
    release: str,
    calls: int = 1,
    outcome: str = "pass",
    kept: str = "other",
    received_ns: int | None = None,
    **attributes: Any,
) -> TraceResult:
    """A trace whose spans call `create_order` so often, and what the rule said of it live."""
    root, call = spans(number)
    resource = Resource({"service.name": "shop", "service.version": release})
    made = [replace(call, span_id=bytes([place]) * 8, resource=resource) for place in range(1, calls + 1)]
    said = evaluation(number, outcome, rule_id="order-checked", rule_hash="b" * 16, release=release)
    times = {} if received_ns is None else {"first_received_ns": received_ns, "last_received_ns": received_ns}
    found = judged(number, evaluations=[said], release=release, **times)
    root = replace(root, resource=resource, attributes={**root.attributes, **attributes})
    return replace(found, spans=encode_spans([root, *made], [], filter_hash=kept))


def write_rule(folder: Path, text: str = RULE, name: str = "order-checked") -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "rule.yaml").write_text(text, encoding="utf-8")
    return folder
