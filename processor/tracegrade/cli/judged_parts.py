"""What an evaluation judged, part by part, for people who try a rule: each constraint, each step, each value read."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tracegrade.display import json_text
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.evaluation_spec import EvaluationSpec

_MAX_SHOWN = 3  # calls that broke one constraint


class Part(NamedTuple):
    """One of them: whether it is as it should be (None: no question), its name, what it asks, and what was found."""

    good: bool | None
    name: str
    asks: str
    found: str


def judged_parts(spec: EvaluationSpec | None, details: Mapping[str, Any], calls: Sequence[ToolCall]) -> Iterator[Part]:
    """The parts in an evaluation's `details`; none of evaluators whose explanation says it all.

    Args:
        spec: what was judged; None where that is not known.
        details: as its evaluator gave them.
        calls: those of the subject, by whose numbers people know them.
    """
    if spec is not None and (read := _READERS.get(spec.evaluator.name)) is not None:
        yield from read(spec, details, _Numbers(calls))


class _Numbers:
    """The numbers of calls, by the spans that show them."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        shared = Counter(call.span_id for call in calls)
        self._by_span = {call.span_id: number for number, call in enumerate(calls, 1) if shared[call.span_id] == 1}

    def of(self, call: Mapping[str, Any]) -> str:
        """``call 2 (refund)``; `call` has a number too, which counts from the call that ``when`` means, if any."""
        number = self._by_span.get(call["span_id"], call["call"])
        return f"call {number} ({self._calls[number - 1].name})" if number <= len(self._calls) else f"call {number}"


def _constraints(spec: EvaluationSpec, details: Mapping[str, Any], numbers: _Numbers) -> Iterator[Part]:
    asked = [form.rule for form in spec.criteria.constraints]
    for place, (asks, each) in enumerate(zip(asked, details.get("constraints", ()), strict=False), 1):
        broken, times = each["violations"], each["triggered"]
        if broken:
            more = f"; and {len(broken) - _MAX_SHOWN} more" if len(broken) > _MAX_SHOWN else ""
            found = "; ".join(_violation(one, numbers) for one in broken[:_MAX_SHOWN]) + more
        else:
            found = f"kept {each['satisfied']} of {times} times" if times else "never triggered"
        is_known = times and not (broken and all(one.get("unknown") for one in broken))
        yield Part(not broken if is_known else None, f"constraint {place}", asks, found)


def _violation(violation: Mapping[str, Any], numbers: _Numbers) -> str:
    calls = ", ".join(map(numbers.of, violation["calls"])) or "no call"
    nearest = f", nearest: {numbers.of(violation['nearest'])}" if "nearest" in violation else ""
    return f"{calls}{nearest}{' (not known)' if violation.get('unknown') else ''}"


def _steps(spec: EvaluationSpec, details: Mapping[str, Any], numbers: _Numbers) -> Iterator[Part]:
    for place, each in enumerate(details.get("steps", ()), 1):
        call = f": {numbers.of(each)}" if "call" in each else ""
        yield Part(each["found"] == "made", f"step {place}", each["step"], f"{each['found']}{call}")
    if spec.settings.extra == "count":
        for each in details.get("extra", ()):
            yield Part(False, "no step", "", numbers.of(each))


def _values(_: EvaluationSpec, details: Mapping[str, Any], __: _Numbers) -> Iterator[Part]:
    for path, value in details.get("read", {}).items():
        yield Part(None, "reads", path, value if isinstance(value, str) else json_text(value))


def _named(_: EvaluationSpec, details: Mapping[str, Any], __: _Numbers) -> Iterator[Part]:
    for each in details.get("ungrounded", ()):
        yield Part(False, each["kind"], each["value"], "nothing gave it")
    for each in details.get("derived", ()):
        yield Part(True, each["kind"], each["value"], f"the sum of {' and '.join(each['sum_of'])}")
    for each in details.get("grounded", ()):
        yield Part(True, each["kind"], each["value"], f"given by {each['source'] if each['span_id'] else 'the prompt'}")


_READERS: dict[str, Callable[[EvaluationSpec, Mapping[str, Any], _Numbers], Iterator[Part]]] = {
    "constraints": _constraints,
    "partial-order": _steps,
    "condition": _values,
    "grounded-answer": _named,
}
