from dataclasses import fields
from typing import Any

from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Pair
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.store.judged import pack_judged, unpack_judged


def _distinct(record: type, **given: Any) -> Any:
    """A record of which no two fields are alike."""
    return record(**{field.name: field.name for field in fields(record)} | given)


def test_what_is_packed_comes_back_field_by_field() -> None:
    call = _distinct(ToolCall, error=ToolError("timeout", "too late"))
    subject = _distinct(JudgedSubject)
    pair = _distinct(Pair, subject=subject)
    decision = _distinct(Decision, pair=pair, evaluations=[_distinct(Evaluation, pair=pair)])
    trace = {name: getattr(subject, name) for name in ("tenant", "run", "trace_id", "revision", "close_reason")}
    trace |= {name: getattr(subject, name) for name in ("complete", "missing", "release")}
    assert unpack_judged(pack_judged(trace, [call], [decision])) == (trace, [call], [decision])
