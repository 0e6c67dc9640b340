from typing import Any

from extract.spans import make_trace, span_id
from tracegrade.extract.across import fold_across
from tracegrade.extract.registry import extract
from tracegrade.model.trace import Trace


def test_calls_that_a_second_instrumentation_shows_in_another_trace_are_marked() -> None:
    def calls(scope: str, trace_number: int, offset_ms: int, chat: bool) -> Trace:
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
        tool["gen_ai.tool.call.arguments"] = '{"q": 1}'
        spans: list[dict[str, Any]] = [
            {"id": 1, "scope": scope, "at": [0, 100], "name": "root"},
            {"id": 2, "parent": 1, "scope": scope, "at": [10 + offset_ms, 20 + offset_ms], "attributes": tool},
            {"id": 3, "parent": 1, "scope": scope, "at": [50 + offset_ms, 60], "attributes": tool},
        ]
        if chat:
            model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
            spans.append({"id": 4, "parent": 1, "scope": scope, "at": [1, 2], "attributes": model})
        return make_trace(spans, trace_number.to_bytes(16, "big"))

    first, second = extract(calls("one", 1, 0, False)), extract(calls("two", 2, 1, True))
    unrelated = extract(calls("one", 3, 30, False))
    fold_across([first, second, unrelated])
    stays = second.trace.trace_id.hex()
    assert [call.duplicate_of for call in first.calls] == [f"{stays}/{span_id(2)}", f"{stays}/{span_id(3)}"]
    assert [call.duplicate_of for call in (*second.calls, *unrelated.calls)] == [None] * 4
