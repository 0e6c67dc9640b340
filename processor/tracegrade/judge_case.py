"""One case of ``tracegrade evaluate`` judged: JSON as a person or a file of conformance vectors writes it.

A case is ``{id, evaluator, config, criteria, calls | spans}``, and optionally ``threshold``, ``matchers``, ``gate``,
``prompt``, ``final_answer``, ``definitions`` (tool to JSON Schema), ``duration`` (seconds) and
``tokens``. A conformance case is taken as it is: ``expected`` for criteria, ``actual`` for calls,
and evaluator names with underscores. A case for another system's evaluator that also has ``unified``, the same question
as settings of `trajectory`, is judged by `trajectory`. Spans go through extraction first; calls go to the evaluator.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracegrade.document.problem import did_you_mean
from tracegrade.evaluate.compare.case_scoring import overall
from tracegrade.evaluate.compare.score_band import score_band
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import evaluators
from tracegrade.extract.extract import extract
from tracegrade.extract.tool_calls import number_attempts
from tracegrade.model.evaluation import Outcome
from tracegrade.model.handoff import Handoff, handoffs_among
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_INTERNAL, STATUS_UNSET, Resource, Span
from tracegrade.model.tool_call import ToolCall, ToolError, ValueStatus
from tracegrade.model.trace import Trace
from tracegrade.model.usage import Cost

_NS_PER_S = 1_000_000_000
# Under which names other systems' criteria have the calls, or only their names.
_OTHER_CALLS = ("tool_calls", "expected_trajectory", "expected_tools", "tool_names", "steps")
# What other systems call ours.
_OTHER_NAMES = {"tool-call-accuracy-f1": "tool-call-accuracy"}
_STATUSES = ("ok", "repaired", "python_repr", "text", "truncated", "redacted", "elsewhere", "absent")


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case, as its line of output says it."""

    id: JsonValue
    outcome: Outcome
    score: float | None = None
    details: dict[str, JsonValue] = field(default_factory=dict)
    explanation: str = ""
    error_type: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented object; ``error`` is null or ``{type, message}``."""
        error: JsonValue = {"type": self.error_type, "message": self.explanation} if self.error_type else None
        return {
            "id": self.id,
            "outcome": self.outcome,
            "score": self.score,
            "details": self.details,
            "explanation": "" if error else self.explanation,
            "error": error,
        }


def judge_case(case: object) -> CaseResult:
    """Judge one case; whatever is wrong with it is a result with outcome error."""
    case_id = case.get("id") if isinstance(case, dict) else None
    try:
        if not isinstance(case, dict):
            raise EvaluatorError("invalid_case", "expected an object {id, evaluator, config, criteria, calls | spans}")
        return _judge(case_id, case)
    except EvaluatorError as error:
        return CaseResult(case_id, "error", explanation=str(error), error_type=error.type)
    except Exception as error:  # a bug in one evaluator must not end the batch; this case's line names it
        return CaseResult(case_id, "error", explanation=f"crashed: {error}", error_type=type(error).__name__)


def _judge(case_id: JsonValue, case: Mapping[str, Any]) -> CaseResult:
    threshold = case.get("threshold", 1.0)
    if not isinstance(threshold, int | float) or isinstance(threshold, bool) or not 0 <= threshold <= 1:
        raise EvaluatorError("invalid_case", f"threshold: expected a number from 0 to 1, found {threshold!r}")
    name = case.get("evaluator")
    if not isinstance(name, str):
        raise EvaluatorError("invalid_case", f"evaluator: expected the name of an evaluator, found {name!r}")
    hyphened = name.replace("_", "-")
    if "unified" in case:
        hyphened, case = "trajectory", _in_our_words(case)
    formula = _OF_SCORES.get(hyphened) if isinstance(case.get("actual"), dict) else None
    score = formula(case["actual"]) if formula is not None else _evaluate(hyphened, case)
    outcome = score.outcome(threshold)
    if outcome == "not_evaluable" and score.range is not None:
        return CaseResult(case_id, outcome, explanation=score.range.why)
    return CaseResult(case_id, outcome, score.score, score.details, score.explanation)


def _in_our_words(case: Mapping[str, Any]) -> dict[str, Any]:
    """The case as one of `trajectory`: settings from ``unified``, and the expected calls under any of their names."""
    expected = case.get("expected")
    criteria = expected if isinstance(expected, dict) else {}
    calls = next((criteria[key] for key in _OTHER_CALLS if key in criteria), None)
    return {**case, "config": case["unified"], "criteria": {"tool_calls": calls}}


def _evaluate(name: str, case: Mapping[str, Any]) -> Score:
    evaluator = evaluators().get(_OTHER_NAMES.get(name, name))
    if evaluator is None:
        raise EvaluatorError("unknown_evaluator", f"no evaluator {name!r}{did_you_mean(name, evaluators())}")
    config = case.get("config") or {}
    if not isinstance(config, dict):
        raise EvaluatorError("invalid_case", "config: expected an object of settings")
    matchers = bool(case.get("matchers") or config.get("matchers"))
    settings = evaluator.read_settings({k: v for k, v in config.items() if k != "matchers"}, matchers=matchers)
    written = case.get("criteria", case.get("expected"))
    criteria = None if written is None else evaluator.read_criteria(written, matchers=matchers)
    return evaluator.evaluate(_evidence(case), criteria, settings)


def _interpreted(actual: Mapping[str, Any]) -> Score:
    """A score without calls, and its band, as in ``details.band`` of `tool-call-accuracy`."""
    score = _number(actual, "score")
    band = score_band(score)
    return Score(score, {"band": band}, f"The score is {band}.")


def _weighed(actual: Mapping[str, Any]) -> Score:
    """The scores of a tool and of its parameters, weighed as for a tool-calling test case."""
    param = None if actual.get("param_score") is None else _number(actual, "param_score")
    return Score(overall(_number(actual, "tool_score"), param), {}, "The weighed scores of tool and parameters.")


# What a case can ask about scores instead of calls.
_OF_SCORES: dict[str, Callable[[Mapping[str, Any]], Score]] = {
    "score-interpretation": _interpreted,
    "overall-score": _weighed,
}


def _number(actual: Mapping[str, Any], key: str) -> float:
    value = actual.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise EvaluatorError("invalid_case", f"{key}: expected a number, found {value!r}")
    return float(value)


def _text_at(case: Mapping[str, Any], key: str) -> str | None:
    value = case.get(key)
    if value is not None and not isinstance(value, str):
        raise EvaluatorError("invalid_case", f"{key}: expected a text, found {value!r}")
    return value


def _evidence(case: Mapping[str, Any]) -> Evidence:
    """What happened; an object with an ``output`` instead of calls is a final answer."""
    actual, as_given = case.get("actual"), not case.get("gate", False)
    if isinstance(actual, dict) and "output" in actual:
        return Evidence([], _text_at(case, "prompt"), actual["output"], as_given=as_given)
    prompt, answer = _text_at(case, "prompt"), case.get("final_answer")
    return Evidence(_calls(case), prompt, answer, _CaseContext(case), as_given=as_given)


class _CaseContext:
    """What a case says beside the calls: ``definitions`` by tool, ``duration`` in seconds, ``tokens``, ``cost``."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self._case = case

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        definitions = self._case.get("definitions")
        return definitions if isinstance(definitions, dict) else {}

    def agents(self) -> Collection[str]:
        return {call.agent for call in _calls(self._case) if call.agent}

    def handoffs(self) -> Sequence[Handoff]:
        return handoffs_among(_calls(self._case))

    def duration_ns(self) -> int | None:
        return None if self._case.get("duration") is None else round(_number(self._case, "duration") * _NS_PER_S)

    def tokens(self) -> int | None:
        return None if self._case.get("tokens") is None else round(_number(self._case, "tokens"))

    def cost(self) -> Cost:
        if self._case.get("cost") is None:
            return Cost(None, "the case does not state it as 'cost'")
        return Cost(_number(self._case, "cost"))

    def unread_before(self, call: ToolCall | None) -> None:
        return None

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        return None


def _calls(case: Mapping[str, Any]) -> list[ToolCall]:
    if case.get("spans") is not None:
        return _read_spans(_objects(case, "spans"))
    key = "calls" if "calls" in case else "actual"
    written = _objects(case, key)
    calls = [_read_call(call, i, f"{key}[{i}]") for i, call in enumerate(written)]
    if not any("attempt" in call for call in written):
        for run in {(call.agent_span_id, call.agent) for call in calls}:
            number_attempts([call for call in calls if (call.agent_span_id, call.agent) == run])
    return calls


def _objects(case: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects at `key`; none for null."""
    value = case.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise EvaluatorError("invalid_case", f"{key}: expected a list of objects")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise EvaluatorError("invalid_case", f"{key}[{i}]: expected an object, found {str(item)[:80]!r}")
    return value


def _read_call(call: Mapping[str, Any], position: int, where: str) -> ToolCall:
    """A call as a case has it (name, args, output, status, step, agent), or as ``tracegrade extract`` prints it.

    Without ``start_ns`` and ``end_ns`` its times are not known, and calls come in the order in which they are given.
    """
    name = call.get("name")
    if not isinstance(name, str):
        raise EvaluatorError("invalid_case", f"{where}.name: expected the tool's name, found {name!r}")
    batch = call.get("batch", call.get("step"))
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool)):
        raise EvaluatorError("invalid_case", f"{where}: expected a number as batch (or step), found {batch!r}")
    arguments = call.get("arguments", call.get("args"))
    read: ValueStatus = "absent" if arguments is None else "ok" if isinstance(arguments, dict) else "text"
    has_output = call.get("output") is not None
    return ToolCall(
        name=name,
        raw_name=name,
        call_id=None,
        arguments=arguments,
        arguments_status=_status(call, "arguments_status", read, where),
        output=call.get("output"),
        output_status=_status(call, "output_status", "ok" if has_output else "absent", where),
        error=_error(call),
        start_ns=_whole(call, "start_ns", 0, where),
        end_ns=_whole(call, "end_ns", 0, where),
        span_id=f"{position + 1:016x}",
        agent=_text_at({f"{where}.agent": call.get("agent")}, f"{where}.agent") or "",
        agent_span_id=_text_at({f"{where}.agent_span_id": call.get("agent_span_id")}, f"{where}.agent_span_id") or "",
        batch=batch,
        attempt=_whole(call, "attempt", 1, where),
    )


def _whole(call: Mapping[str, Any], key: str, default: int, where: str) -> int:
    value = call.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EvaluatorError("invalid_case", f"{where}.{key}: expected a whole number, 0 or more, found {value!r}")
    return value


def _status(call: Mapping[str, Any], key: str, default: ValueStatus, where: str) -> ValueStatus:
    status: ValueStatus = call.get(key, default)
    if status not in _STATUSES:
        raise EvaluatorError("invalid_case", f"{where}.{key}: expected one of {', '.join(_STATUSES)}, found {status!r}")
    return status


def _error(call: Mapping[str, Any]) -> ToolError | None:
    error = call.get("error")
    if isinstance(error, dict):
        return ToolError(str(error.get("type", "")), str(error.get("message", "")))
    return ToolError("", str(error or "")) if error or call.get("status") == "error" else None


def _read_spans(spans: list[dict[str, Any]]) -> list[ToolCall]:
    """Extract the calls of raw spans ``{name, start, end, attributes}``; times in seconds."""
    resource = Resource()
    read = [_read_span(span, i, resource) for i, span in enumerate(spans)]
    trace = Trace(
        trace_id=bytes(15) + b"\1",
        tenant="default",
        spans=read,
        close_reason="end_of_input",
        missing=[],
        revision=len(read),
    )
    return extract(trace).calls


def _read_span(span: Mapping[str, Any], position: int, resource: Resource) -> Span:
    where = f"spans[{position}]"
    attributes = span.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise EvaluatorError("invalid_case", f"{where}.attributes: expected an object")
    return Span(
        trace_id=bytes(15) + b"\1",
        span_id=(position + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        name=str(span.get("name", "")),
        kind=KIND_INTERNAL,
        start_ns=_nanoseconds(span, "start", where),
        end_ns=_nanoseconds(span, "end", where),
        flags=0,
        status_code=STATUS_UNSET,
        status_message="",
        attributes=attributes,
        events=[],
        dropped_attributes_count=0,
        scope="",
        resource=resource,
    )


def _nanoseconds(span: Mapping[str, Any], key: str, where: str) -> int:
    value = span.get(key, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise EvaluatorError("invalid_case", f"{where}.{key}: expected a time in seconds, found {value!r}")
    return round(value * _NS_PER_S)
