"""Judged traces as the judge writes them."""

from typing import Any

import pytest

from build.records import decisions_of, summary_of
from tracegrade.codec.results import new_result
from tracegrade.model.evaluation import evaluation_id, pair_key, subject_key
from tracegrade.model.trace_result import TraceResult

TRACE_ID = "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"
SPAN_ID = "00f067aa0ba902b7"


def _evaluation(revision: int, **changes: Any) -> dict[str, Any]:
    found = {
        "tenant": "default",
        "run": "live",
        "rule_id": "checkout-order",
        "rule_hash": "0123456789abcdef",
        "evaluation": "tool-call-order",
        "evaluator": "tool-call-order",
        "case": None,
        "subject": {"kind": "agent", "id": SPAN_ID},
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "session": None,
        "agent": "support",
        "service": "shop",
        "release": None,
        "level": "high",
        "score": 1.0,
        "threshold": 0.9,
        "outcome": "pass",
        "reason": "",
        "explanation": "all 3 calls in order",
        "details": {"found": ["4111 1111"]},
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "revision": revision,
        "probability": 1.0,
        "time": 1_700_000_000_000_000_009,
    } | changes
    found["label"] = found["outcome"]
    kind, subject_id = found["subject"]["kind"], found["subject"]["id"]
    subject = subject_key(found["tenant"], found["run"], found["trace_id"], kind, subject_id)
    pair = pair_key(subject, found["rule_id"], found["rule_hash"], revision)
    found["id"] = evaluation_id(pair, found["evaluation"], found["case"])
    return found


def _judged(*changes: dict[str, Any], revision: int = 3, supersedes: int | None = None, **trace: Any) -> TraceResult:
    """A judged trace with one evaluation for each of `changes`, which say how it differs from the usual one."""
    described = {
        "tenant": "default",
        "run": "live",
        "trace_id": TRACE_ID,
        "revision": revision,
        "supersedes": supersedes,
        "service": "shop",
        "resource": {"service.name": "shop", "k8s.pod.name": "shop-1", "weights": [1, 2.5, True, None, {"a": "b"}]},
    } | trace
    shared = {name: described[name] for name in ("tenant", "run", "trace_id")}
    return new_result(
        summary_of(**described),
        b"",
        [],
        decisions_of([_evaluation(revision, **shared, **change) for change in changes]),
    )


@pytest.fixture
def judged():
    """Makes a `TraceResult`: see `_judged`."""
    return _judged
