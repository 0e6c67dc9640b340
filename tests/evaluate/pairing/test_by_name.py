"""The worked example of the module; `tests/evaluate/evaluators/test_tool_call_args.py` has the rest."""

from typing import Any

import pytest

from build import each
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall


def search(q: str, start_ns: int) -> ToolCall:
    found = {"q": q}
    return ToolCall(
        "search", "search", None, found, "ok", None, "absent", None, start_ns, start_ns, "00" * 8, "support", "a"
    )


EXPECTED = {"tool_calls": [{"name": "search", "args": {}}, {"name": "search", "args": {"q": "Rome"}}]}


@each(
    ("starts", "settings", "expected"),
    [
        pytest.param((1, 2), {"pairing": "best"}, 1.0, id="as many as possible"),
        pytest.param((1, 2), {}, 0.5, id="the first that fits is not given back"),
        pytest.param((1, 2), {"pairing": "positional"}, 0.5, id="the second with the second"),
        pytest.param((1, 1), {}, 1.0, id="as many as possible where nothing tells the order"),
    ],
)
def test_the_worked_example(starts: tuple[int, int], settings: dict[str, Any], expected: float) -> None:
    args = EVALUATORS["tool-call-args"]
    calls = [search("Rome", starts[0]), search("Oslo", starts[1])]
    criteria, read = args.read_criteria(EXPECTED), args.read_settings({"subset": True, **settings})
    assert args.evaluate(Evidence(calls), criteria, read).score == expected
