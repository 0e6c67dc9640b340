"""The parts of a session: which runs belong to it, and in which order their calls come."""

from typing import Any

import build
from build import each
from extract.test_shape_guards import AGENT
from tracegrade.extract.extract import extract
from tracegrade.extract.later_results import results_for_others
from tracegrade.extract.session import joined, part_of, session_ids
from tracegrade.extract.trace_context import SessionContext
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session, SessionPart, ToolResult
from tracegrade.model.usage import NO_PRICES, Cost


def agent(number: int, at: list[int], session: str | None, **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    if session is not None:
        attributes["gen_ai.conversation.id"] = session
    return {"id": number, "at": at, "attributes": attributes, **more}


def tool(number: int, parent: int, at: list[int], name: str, scope: str = "sdk") -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    attributes["gen_ai.tool.call.arguments"] = '{"q": 1}'
    return {"id": number, "parent": parent, "at": at, "scope": scope, "attributes": attributes}


def chat(number: int, parent: int, tokens: int) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": tokens}
    return {"id": number, "parent": parent, "at": [1, 2], "attributes": attributes}


def extraction(number: int, *spans: dict[str, Any]) -> Extraction:
    return extract(build.trace(list(spans), number.to_bytes(16, "big")))


def parts(session: str, *extractions: Extraction) -> list[SessionPart]:
    return [part for found in extractions if (part := part_of(found, session)) is not None]


def test_a_trace_is_part_of_every_session_that_its_runs_name() -> None:
    batch = extraction(
        1,
        {"id": 1, "at": [0, 900], "name": "experiment"},
        agent(2, [10, 100], "chat-1", parent=1),
        tool(3, 2, [20, 30], "find"),
        agent(4, [200, 300], "chat-2", parent=1),
        tool(5, 4, [210, 220], "refund"),
    )
    assert session_ids(batch) == ["chat-1", "chat-2"]
    assert [[call.name for call in part.calls] for part in parts("chat-1", batch)] == [["find"]]
    assert [[call.name for call in part.calls] for part in parts("chat-2", batch)] == [["refund"]]
    assert parts("chat-3", batch) == []


def model_call(inputs: str, output: str) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c", "gen_ai.input.messages": inputs}
    return {"id": 1, "at": [1, 2], "attributes": attributes | {"gen_ai.output.messages": output}}


def asking(*call_ids: str) -> str:
    calls = ",".join(f'{{"type":"tool_call","id":"{one}","name":"find","arguments":{{}}}}' for one in call_ids)
    return f'[{{"role":"assistant","parts":[{calls}]}}]'


def told(**results: str) -> str:
    parts = ",".join(
        f'{{"type":"tool_call_response","id":"{one}","response":{result}}}' for one, result in results.items()
    )
    return f'[{{"role":"user","parts":[{{"type":"text","content":"go"}}]}},{{"role":"tool","parts":[{parts}]}}]'


def test_a_result_that_another_trace_of_the_session_tells_is_its_calls() -> None:
    first = extraction(1, model_call("[]", asking("c1", "c2", "twice")))
    second = extraction(2, model_call(told(c1='{"n": 1}', other="3"), asking("twice")))
    third = extraction(3, model_call(told(twice="2"), "[]"))
    found = [parts("c", first, second, third), parts("c", third, second, first)]
    for ordered, calls in map(joined, found):
        assert len(ordered) == 3
        read = sorted((str(call.call_id), call.output_status, str(call.output)) for call in calls)
        assert read == [
            ("c1", "ok", "{'n': 1}"),
            ("c2", "absent", "None"),
            ("twice", "absent", "None"),
            ("twice", "absent", "None"),
        ]
    assert all(call.output_status == "absent" for call in first.calls)  # the trace itself says no more than it did


def test_a_failure_that_another_trace_of_the_session_tells_is_its_calls() -> None:
    failed = (
        '[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"closed","is_error":true}]}]'
    )
    first, second = extraction(1, model_call("[]", asking("c1"))), extraction(2, model_call(failed, "[]"))
    _, (call,) = joined(parts("c", first, second))
    assert call.error is not None
    assert (call.output, call.error.message) == ("closed", "closed")


def test_a_trace_that_names_no_session_is_part_of_none() -> None:
    assert session_ids(extraction(1, agent(1, [0, 100], None))) == []


@each("masked", ["[redacted]", "<REDACTED>", "__REDACTED__", "[redacted:email]"])
def test_a_session_that_its_sender_masked_is_none(masked: str) -> None:
    assert session_ids(extraction(1, agent(1, [0, 100], masked))) == []
    both = agent(1, [0, 100], masked)
    both["attributes"]["session.id"] = "chat-1"
    assert session_ids(extraction(1, both)) == ["chat-1"]


def test_calls_of_traces_that_overlap_come_in_order_of_start() -> None:
    late = extraction(1, agent(1, [50, 300], "c"), tool(2, 1, [60, 70], "second"), tool(3, 1, [200, 210], "fourth"))
    early = extraction(2, agent(1, [0, 300], "c"), tool(2, 1, [10, 20], "first"), tool(3, 1, [100, 110], "third"))
    ordered, calls = joined(parts("c", late, early))
    assert [part.trace.trace_id[-1] for part in ordered] == [2, 1]
    assert [call.name for call in calls] == ["first", "second", "third", "fourth"]


def test_batches_of_two_traces_are_two() -> None:
    def together(number: int, at: int) -> Extraction:
        overlapping = (tool(2, 1, [at + 10, at + 50], "one"), tool(3, 1, [at + 20, at + 60], "two"))
        return extraction(number, agent(1, [at, at + 100], "c"), *overlapping)

    _, calls = joined(parts("c", together(1, 0), together(2, 1000)))
    first, second = calls[0].batch, calls[2].batch
    assert first != second
    assert [call.batch for call in calls] == [first, first, second, second]


def test_a_call_that_two_instrumentations_show_is_there_once_and_stays_in_its_traces() -> None:
    one = extraction(1, agent(1, [0, 100], "c"), tool(2, 1, [10, 20], "find", scope="one"))
    other = extraction(2, agent(1, [0, 100], "c"), tool(2, 1, [10, 20], "find", scope="other"))
    ordered, calls = joined(parts("c", one, other))
    assert [call.name for call in calls] == ["find"]
    assert sum(len(run.calls) for part in ordered for run in part.runs) == 1
    assert [call.duplicate_of for found in (one, other) for call in found.calls] == [None, None]


def test_the_context_of_a_session_is_that_of_its_runs_together() -> None:
    first = extraction(1, agent(1, [100, 200], "c"), chat(2, 1, 10))
    second = extraction(2, agent(1, [500, 900], "c"), chat(2, 1, 5))
    ordered, calls = joined(parts("c", first, second))
    trace_context = SessionContext(Session("c", "default", ordered, calls, {}, "quiet", []))
    assert trace_context.tokens() == 15
    times = [run.start_ns for run in first.runs], [run.end_ns for run in second.runs]
    assert trace_context.duration_ns() == max(times[1]) - min(times[0])
    assert trace_context.cost() == (None, NO_PRICES)
    free = SessionContext(Session("c", "default", ordered, calls, {}, "quiet", []), lambda usages: Cost(len(usages)))
    assert free.cost() == (2, "")


def test_a_result_that_a_model_read_by_shape_was_given_is_told_to_other_traces() -> None:
    trace = build.trace([{**AGENT[3], "parent": None}])
    assert results_for_others(trace, []) == {"c1": ToolResult(["green"], "ok", None)}
