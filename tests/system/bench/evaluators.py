"""One judgement of six calls: our order and argument evaluators, UiPath's, Ragas's and agentevals'; and long ones.

    pip install 'tracegrade[bench]'
    pip install --no-deps langchain-community==0.3.31      # Ragas 0.4.3 imports what later ones no longer have
    python tests/system/bench/evaluators.py

All are given the same calls in their own form, made once beforehand, and judge them with the same expectation: UiPath's
by their evaluators' ``evaluate``, which reads spans and explains itself, and by the bare functions that score. What is
timed is the judgement alone, the best of many rounds, in one process and one run; UiPath's coroutines are driven by
hand, without an event loop. Ours are timed twice: the score, and with its details and explanation, which are written
when somebody asks for them; Ragas and agentevals give none.
"""

import asyncio
import gc
import json
import warnings
from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from typing import Any

from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall

Calls = list[tuple[str, dict[str, Any]]]

CALLS: Calls = [(f"tool_{i}", {"user_id": i, "query": f"order {i}", "options": {"limit": 10}}) for i in range(6)]
ROUND_NS = 2_000_000
ROUNDS = 200


def _measure(judge: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Microseconds of one judgement, the best of many short rounds: on a shared machine few are undisturbed."""
    start = perf_counter_ns()
    judge()
    judge()
    times = max(1, 2 * ROUND_NS // (perf_counter_ns() - start))
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter_ns()
        for _ in range(times):
            judge()
        best = min(best, (perf_counter_ns() - start) / times / 1000)
    return best


def _run(coroutine: Coroutine[Any, Any, object]) -> object:
    """What a coroutine that waits for nothing returns."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def _written(judge: Callable[[], Score]) -> Callable[[], object]:
    """The same judgement with its justification."""
    return lambda: judge().details


def _ours(name: str, criteria: Any, made: Calls) -> Callable[[], Score]:
    evaluator = EVALUATORS[name]
    read, settings = evaluator.read_criteria(criteria), evaluator.read_settings({})
    calls = [
        ToolCall(
            name=tool,
            raw_name=tool,
            call_id=None,
            arguments=args,
            arguments_status="ok",
            output=None,
            output_status="absent",
            error=None,
            start_ns=i,
            end_ns=i,
            span_id=f"{i:016x}",
            agent="",
            agent_span_id="",
        )
        for i, (tool, args) in enumerate(made)
    ]
    # A new evidence each time: nothing is known from the judgement before.
    return lambda: evaluator.evaluate(Evidence(calls), read, settings)


def _uipath() -> dict[str, Callable[[], object]]:
    from opentelemetry.sdk.trace import ReadableSpan
    from uipath.eval._helpers import evaluators_helpers as helpers
    from uipath.eval.evaluators import ToolCallArgsEvaluator, ToolCallOrderEvaluator
    from uipath.eval.models import WorkloadExecution
    from uipath.eval.models.models import ToolCall as Expected

    spans = [
        ReadableSpan(name=tool, attributes={"tool.name": tool, "input.value": json.dumps(args)}) for tool, args in CALLS
    ]
    order = [tool for tool, _ in CALLS]
    expected = [Expected(name=tool, args=args) for tool, args in CALLS]
    names = helpers.extract_tool_calls_names(spans)
    calls = helpers.extract_tool_calls(spans)
    execution = WorkloadExecution(agent_input={}, workload_output={}, workload_trace=spans)
    by_order = ToolCallOrderEvaluator.model_validate({"id": "order", "evaluatorConfig": {"name": "order"}})
    by_args = ToolCallArgsEvaluator.model_validate({"id": "args", "evaluatorConfig": {"name": "args"}})
    order_criteria = by_order.evaluation_criteria_type.model_validate({"tool_calls_order": order})
    args_criteria = by_args.evaluation_criteria_type.model_validate({"tool_calls": expected})
    return {
        "uipath order, evaluate()": lambda: _run(by_order.evaluate(execution, order_criteria)),
        "uipath args, evaluate()": lambda: _run(by_args.evaluate(execution, args_criteria)),
        "uipath order, bare": lambda: helpers.tool_calls_order_score(names, order, False),
        "uipath args, bare": lambda: helpers.tool_calls_args_score(calls, expected, False, False),
    }


def _ragas() -> dict[str, Callable[[], object]]:
    from ragas.dataset_schema import MultiTurnSample
    from ragas.messages import AIMessage, HumanMessage
    from ragas.messages import ToolCall as Call
    from ragas.metrics import ToolCallAccuracy

    calls = [Call(name=tool, args=args) for tool, args in CALLS]
    messages = [HumanMessage(content="go"), AIMessage(content="", tool_calls=calls)]
    sample = MultiTurnSample(user_input=messages, reference_tool_calls=calls)
    metric = ToolCallAccuracy()
    loop = asyncio.new_event_loop()  # it waits for time-outs, which need one
    return {"ragas tool call accuracy": lambda: loop.run_until_complete(metric._multi_turn_ascore(sample, None))}


def _agentevals() -> dict[str, Callable[[], object]]:
    from agentevals.trajectory.match import create_trajectory_match_evaluator

    calls = [
        {"id": str(i), "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
        for i, (tool, args) in enumerate(CALLS)
    ]
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    evaluator = create_trajectory_match_evaluator(trajectory_match_mode="unordered")
    return {"agentevals unordered": lambda: evaluator(outputs=messages, reference_outputs=messages)}


def _order_of(made: Calls) -> dict[str, Any]:
    return {"tool_calls_order": [tool for tool, _ in made]}


def _args_of(made: Calls) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "args": args} for tool, args in made]}


def _many(count: int) -> Calls:
    return [(f"tool_{i % 20}", {"id": i, "query": f"order {i}"}) for i in range(count)]


def _beside_others() -> None:
    judges = {
        "order": _ours("tool-call-order", _order_of(CALLS), CALLS),
        "args": _ours("tool-call-args", _args_of(CALLS), CALLS),
    }
    ours = {name: (_measure(judge), _measure(_written(judge))) for name, judge in judges.items()}
    for name, (taken, written) in ours.items():
        print(f"{'ours, ' + name:28}{taken:10.1f} us; with details {written:.1f} us")
    for load in (_uipath, _ragas, _agentevals):
        try:
            others = load()
        except ImportError as error:
            print(f"{load.__name__[1:]:28}not installed: {error}; see the top of this file")
            continue
        for name, judge in others.items():
            mine, written = ours["order" if name.startswith("uipath order") else "args"]
            taken = _measure(judge)
            print(
                f"{name:28}{taken:10.1f} us{taken / mine:10.1f} times ours;{taken / written:10.1f} times with details"
            )


def _long_ones() -> None:
    """Many calls against fifty expected ones, one of which was not made: the longest subsequence must be sought."""
    expected = [*_many(1000)[-1:-932:-19], ("nobody_called", {})]
    for name, criteria in (("tool-call-order", _order_of(expected)), ("tool-call-args", _args_of(expected))):
        before = None
        for count in (1000, 1250, 2500, 5000, 10_000):
            taken = _measure(_ours(name, criteria, _many(count)), rounds=10) / 1000
            ratio = f"{taken / before:8.2f} times the half" if before is not None and count > 1250 else ""
            print(f"{name}, {count:6} calls, {len(expected)} expected {taken:8.1f} ms{ratio}")
            before = taken


def main() -> None:
    """Measure whatever is installed, and print a table."""
    warnings.simplefilter("ignore")
    gc.disable()  # what a round leaves would be collected in another
    _beside_others()
    _long_ones()


if __name__ == "__main__":
    main()
