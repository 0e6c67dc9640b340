"""What came of a suite that was run with a model or an agent: each run of a case, and the averages.

All is read from stored traces and evaluations, so that a run that went on after an interruption shows all of it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any, TypeAlias

from sqlalchemy import Connection

from tracegrade.bootstrap import Cluster, Clusters, mean_interval
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.extract.decode.values import parse_object
from tracegrade.extract.messages import USER_ROLES, last_text, read_messages
from tracegrade.model.evaluation import OUTCOMES, Outcome, Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace_result import TraceResult
from tracegrade.model.usage import Tokens
from tracegrade.rule.prices import Price
from tracegrade.semconv import (
    CASE_ID,
    INPUT_MESSAGES,
    OPERATION_NAME,
    SUITE_EXIT_CODE,
    SUITE_EXPECTED,
    SUITE_NOTES,
    SUITE_REPETITION,
    SUITE_SCOPE,
    SUITE_STDERR,
    TOKENS_CACHED,
)
from tracegrade.store.read import results_of_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Run
from tracegrade.suites.agents.target import AgentTarget
from tracegrade.suites.models.settings import Target

AnyTarget: TypeAlias = Target | AgentTarget
"""What a suite is run with: a model, or an agent of one's own."""

CHAIN_NUMBERS = ("completion", "efficiency", "redundancy_penalty", "detour_penalty", "calls")
"""What a case of several turns has beside its score, in the details of `multi-turn`."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One run of one case with one model.

    ``score`` is the overall one, 0..1, None where nothing could be judged; ``details`` are the evaluator's.
    ``latency_s`` is the time of all requests to a model, without waiting for their turns, or from the begin to the end
    of an agent's work; ``cost`` is None where it is not known. ``notes`` say what was not as asked for, such as a call
    that had to be repaired. ``expected`` is the item that judged it, as the suite's rule has it; None where the trace
    does not say, as of one that another program wrote, and ``pairing`` which call it took for the expected one.
    ``exit_code`` and ``stderr`` (its end) are those of an agent's
    command.
    """

    run: str
    model: str
    case: str
    repetition: int
    trace_id: str
    outcome: Outcome
    score: float | None
    details: dict[str, JsonValue]
    explanation: str
    calls: list[dict[str, JsonValue]]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    latency_s: float
    notes: list[str]
    prompt: str = ""
    expected: dict[str, JsonValue] | None = None
    exit_code: int | None = None
    stderr: str = ""
    pairing: Pairing | None = None

    def number(self, name: str) -> float | None:
        """A number of the details; None where there is none."""
        found = self.details.get(name)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        chain_numbers: dict[str, JsonValue] = {name: self.number(name) for name in CHAIN_NUMBERS}
        return {
            "run": self.run,
            "model": self.model,
            "case": self.case,
            "repetition": self.repetition,
            "trace_id": self.trace_id,
            "outcome": self.outcome,
            "overall": self.score,
            "tool_selection": self.number("tool_selection"),
            "param_accuracy": self.number("param_accuracy"),
            "multi_turn": chain_numbers if self.number("completion") is not None else None,
            "explanation": self.explanation,
            "expected": None
            if self.expected is None
            else {"tool": self.expected.get("expected_tool"), "params": self.expected.get("expected_params")},
            "calls": [*self.calls],
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost,
            "latency_s": round(self.latency_s, 3),
            "notes": [*self.notes],
            "exit_code": self.exit_code,
            "stderr": self.stderr,
        }


def case_result(result: TraceResult, rule_id: str, target: AnyTarget) -> CaseResult:
    """What `result`, a stored trace of a suite's run, says; `rule_id` is that of the suite."""
    return _case_result(result, rule_id, target.key, target.price)


def _case_result(result: TraceResult, rule_id: str, model: str, price: Price | None) -> CaseResult:
    spans = decode_spans(result.spans).spans
    said = [span for span in spans if CASE_ID in span.attributes]
    root = min(said, key=lambda span: span.scope != SUITE_SCOPE)  # an agent's own spans may say it, too
    decision = next((found for found in result.decisions if found.pair.rule_id == rule_id), None)
    evaluation = decision.evaluations[-1] if decision is not None and decision.evaluations else None
    chats = [span for span in spans if span.attributes.get(OPERATION_NAME) == "chat"]
    taken = _tokens(result, sum(_whole(span.attributes.get(TOKENS_CACHED[0])) for span in chats))
    # An agent's own model calls may run beside each other, and are not all that it takes time for.
    is_agent = root.scope == SUITE_SCOPE and not any(span.scope == SUITE_SCOPE for span in chats)
    timed = [root] if is_agent else chats
    notes = root.attributes.get(SUITE_NOTES)
    expected = parse_object(root.attributes.get(SUITE_EXPECTED))
    exit_code, stderr = root.attributes.get(SUITE_EXIT_CODE), root.attributes.get(SUITE_STDERR)
    return CaseResult(
        run=result.trace.run,
        model=model,
        case=str(root.attributes[CASE_ID]),
        repetition=_whole(root.attributes.get(SUITE_REPETITION)),
        trace_id=result.trace.trace_id,
        outcome=evaluation.outcome if evaluation is not None else "error",
        score=evaluation.score if evaluation is not None else None,
        details=dict(evaluation.details) if evaluation is not None else {},
        explanation=(evaluation.explanation or evaluation.reason) if evaluation is not None else "it met no case",
        calls=[{"name": call.name, "arguments": call.arguments} for call in result.tool_calls],
        input_tokens=taken.input if taken is not None else None,
        output_tokens=taken.output if taken is not None else None,
        cost=price.of(taken) if price is not None and taken is not None else None,
        latency_s=sum(span.end_ns - span.start_ns for span in timed) / 1e9,
        notes=[str(note) for note in notes] if isinstance(notes, list) else [],
        prompt=last_text(read_messages(root.attributes.get(INPUT_MESSAGES)), USER_ROLES) or "",
        expected=expected if isinstance(expected, dict) else None,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        stderr=stderr if isinstance(stderr, str) else "",
        pairing=evaluation.pairing if evaluation is not None else None,
    )


def _tokens(result: TraceResult, cached: int) -> Tokens | None:
    runs = result.trace.runs  # several where an agent has others work for it
    taken = [[run.input_tokens for run in runs], [run.output_tokens for run in runs]]
    into, out = (sum(filter(None, found)) if any(n is not None for n in found) else None for found in taken)
    return None if into is None and out is None else Tokens(into, out, (into or 0) + (out or 0), cached)


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def stored_results(
    connection: Connection, tenant: str, run: str, rule_id: str, target: AnyTarget, cases: Sequence[str]
) -> list[CaseResult]:
    """All that is stored of a run: in the order of `cases`, the suite's, then by repetition."""
    found = results_of_traces(connection, ResultFilter(tenant=tenant, run=run))
    order = {case: place for place, case in enumerate(cases)}
    results = [case_result(result, rule_id, target) for result in found]
    return sorted(results, key=lambda item: (order.get(item.case, len(order)), item.repetition))


def results_of_run(connection: Connection, run: Run, price: Price | None = None) -> list[CaseResult]:
    """All that is stored of a run of a suite, in the order in which it came; `price` is that of its model."""
    found = results_of_traces(connection, ResultFilter(tenant=run.tenant, run=run.name))
    results = [result_in_run(result, run, price) for result in found]
    return sorted(reversed(results), key=lambda item: item.repetition)


def result_in_run(result: TraceResult, run: Run, price: Price | None = None) -> CaseResult:
    """What `result`, a stored trace of `run`, says; `price` is that of its model."""
    return _case_result(result, str(run.selection.get("suite")), str(run.selection.get("model")), price)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The averages of one model. Those of scores are over what passed or failed; None where there is nothing.

    ``interval`` is the 95 % interval of ``overall``: drawn again by cases, since repetitions of a case go together.
    ``flaky`` are the cases that both passed and failed.
    """

    run: str
    model: str
    results: int
    outcomes: dict[Outcome, int]
    overall: float | None
    interval: tuple[float, float] | None
    tool_selection: float | None
    param_accuracy: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    latency_s: float | None
    flaky: list[str]
    notes: dict[str, int]

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return {
            "run": self.run,
            "model": self.model,
            "results": self.results,
            **{str(name): number for name, number in self.outcomes.items()},
            "overall": self.overall,
            "interval": list(self.interval) if self.interval is not None else None,
            "tool_selection": self.tool_selection,
            "param_accuracy": self.param_accuracy,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost,
            "median_latency_s": self.latency_s,
            "flaky": [*self.flaky],
            "notes": {**self.notes},
        }


def summary_of(run: str, model: str, results: Sequence[CaseResult]) -> ModelSummary:
    """The averages of all results of one model."""
    judged = [item for item in results if item.score is not None and item.outcome in ("pass", "fail")]
    by_case: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for item in judged:
        by_case[item.case].append(item)
    outcomes: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
    for item in results:
        outcomes[item.outcome] += 1
    clusters: list[Cluster] = []
    for found in by_case.values():
        scores = sum(item.score or 0.0 for item in found)
        clusters.append((scores, len(found) - scores))
    latencies = [item.latency_s for item in results if item.outcome != "error"]
    return ModelSummary(
        run=run,
        model=model,
        results=len(results),
        outcomes=outcomes,
        overall=_mean(judged, lambda item: item.score),
        interval=mean_interval(Clusters(clusters)),
        tool_selection=_mean(judged, lambda item: item.number("tool_selection")),
        param_accuracy=_mean(judged, lambda item: item.number("param_accuracy")),
        input_tokens=_sum(results, lambda item: item.input_tokens),
        output_tokens=_sum(results, lambda item: item.output_tokens),
        cost=_sum(results, lambda item: item.cost),
        latency_s=round(median(latencies), 3) if latencies else None,
        flaky=[case for case, found in by_case.items() if len({item.outcome for item in found}) > 1],
        notes=_counted(chain.from_iterable(item.notes for item in results)),
    )


def _mean(results: Sequence[CaseResult], of: Callable[[CaseResult], float | None]) -> float | None:
    known = [value for item in results if (value := of(item)) is not None]
    return round(sum(known) / len(known), 4) if known else None


def _sum(results: Sequence[CaseResult], of: Callable[[CaseResult], Any]) -> Any:
    """The sum of what is known; None where nothing is."""
    known = [value for item in results if (value := of(item)) is not None]
    return sum(known) if known else None


def _counted(notes: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for note in notes:
        found[note] = found.get(note, 0) + 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
