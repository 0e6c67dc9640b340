"""Criteria that each evaluator accepts, as few as that takes: a new evaluator has its line here."""

from typing import Any

CRITERIA: dict[str, Any] = {
    "tool-call-order": {"tool_calls_order": ["a"]},
    "tool-call-count": {"tool_calls_count": {"a": ["=", 1]}},
    "tool-call-args": {"tool_calls": [{"name": "a", "args": {}}]},
    "tool-call-accuracy": {"reference_tool_calls": [{"name": "a"}]},
    "tool-call-output": {"tool_outputs": [{"name": "a", "output": "x"}]},
    "trajectory": {"tool_calls": [{"name": "a", "args": {}}]},
    "partial-order": {"steps": [{"tool": "a", "args": {"x": 1}}]},
    "ragas-tool-call-accuracy": {"reference_tool_calls": [{"name": "a"}]},
    "ragas-tool-call-f1": {"reference_tool_calls": [{"name": "a"}]},
    "tool-selection": {"expected_tool": "a"},
    "param-accuracy": {"expected_params": {"x": 1}},
    "overall-score": {"expected_tool": "a", "expected_params": {"x": 1}},
    "tool-case": {"expected_tool": "a", "expected_params": {"x": 1}},
    "multi-turn": {"expected_tool": "a", "expected_params": {"x": 1}},
    "abstention": {"should_call_tool": True},
    "schema-validation": {"parameters_schema": {"required": ["x"]}},
    "exact-match": {"expected_output": "x"},
    "contains": {"search_text": "x"},
    "json-similarity": {"expected_output": "x"},
    "grounded-answer": {},
    "loop-repetition": {},
    "tool-permission": {},
    "args-schema": {"schemas": {"a": {"required": ["x"]}}},
    "budget": {"max_calls": 1},
    "data-flow": {"returned_by": "a", "given_to": "b"},
    "handoffs": {"max_handoffs": 1},
    "constraints": {"constraints": [{"before": "a", "comes": "b"}]},
    "condition": {"expression": "size(calls) > 0"},
}
