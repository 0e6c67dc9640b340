"""One judgement of a six-call trace: our order and argument evaluators, UiPath's, Ragas's and agentevals'.

    pip install uipath ragas agentevals
    python tests/bench/evaluators.py

All are given the same calls in their own form, made once beforehand, and judge them with the same expectation; what is
timed is the judgement alone, the best of five rounds, in one process and one run.
"""

import asyncio
import json
import warnings
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall

CALLS = [(f"tool_{i}", {"user_id": i, "query": f"order {i}", "options": {"limit": 10}}) for i in range(6)]
ROUNDS = 5


def _measure(judge: Callable[[], object], times: int) -> float:
    """Microseconds of one judgement, the best of five rounds."""
    judge()
    best = None
    for _ in range(ROUNDS):
        start = perf_counter_ns()
        for _ in range(times):
            judge()
        taken = (perf_counter_ns() - start) / times / 1000
        best = taken if best is None else min(best, taken)
    assert best is not None
    return best


def _ours(name: str, criteria: Any) -> Callable[[], object]:
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
        for i, (tool, args) in enumerate(CALLS)
    ]
    # A new evidence each time: nothing is known from the judgement before.
    return lambda: evaluator.evaluate(Evidence(calls), read, settings)


def _uipath() -> dict[str, Callable[[], object]]:
    from opentelemetry.sdk.trace import ReadableSpan
    from uipath.eval._helpers import evaluators_helpers as helpers
    from uipath.eval.models.models import ToolCall as Expected

    spans = [
        ReadableSpan(name=tool, attributes={"tool.name": tool, "input.value": json.dumps(args)}) for tool, args in CALLS
    ]
    order = [tool for tool, _ in CALLS]
    expected = [Expected(name=tool, args=args) for tool, args in CALLS]
    names = helpers.extract_tool_calls_names(spans)
    calls = helpers.extract_tool_calls(spans)
    return {
        "uipath order": lambda: helpers.tool_calls_order_score(names, order, False),
        "uipath args": lambda: helpers.tool_calls_args_score(calls, expected, False, False),
        "uipath order, from spans": lambda: helpers.tool_calls_order_score(
            helpers.extract_tool_calls_names(spans), order, False
        ),
        "uipath args, from spans": lambda: helpers.tool_calls_args_score(
            helpers.extract_tool_calls(spans), expected, False, False
        ),
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
    loop = asyncio.new_event_loop()
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


def main() -> None:
    """Measure whatever is installed, and print a table."""
    warnings.simplefilter("ignore")
    order = _ours("tool-call-order", {"tool_calls_order": [tool for tool, _ in CALLS]})
    args = _ours("tool-call-args", {"tool_calls": [{"name": tool, "args": args} for tool, args in CALLS]})
    ours = {"order": _measure(order, 5000), "args": _measure(args, 5000)}
    for name, taken in ours.items():
        print(f"{'ours, ' + name:28}{taken:10.1f} us")
    for load in (_uipath, _ragas, _agentevals):
        try:
            others = load()
        except ImportError as error:
            print(f"{load.__name__[1:]:28}not installed: {error}; pip install uipath ragas agentevals")
            continue
        for name, judge in others.items():
            mine = ours["order" if name.startswith("uipath order") else "args"]
            taken = _measure(judge, 500)
            print(f"{name:28}{taken:10.1f} us{taken / mine:10.1f} times ours")


if __name__ == "__main__":
    main()
