"""ATIF documents as traces: calls, results, errors, sub-agents, tokens and times."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tracegrade.extract.extract import extract
from tracegrade.extract.token_usage import added_up, model_calls
from tracegrade.judge import judge
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.whole_traces import read_traces
from tracegrade.rule.load import load_rules


def call(call_id: str, name: str, **arguments: JsonValue) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def agent_step(seconds: int, *calls: dict[str, Any], results: Any = (), message: Any = "", **more: Any) -> Any:
    step = {"source": "agent", "timestamp": f"2026-03-01T10:00:{seconds:02}.500Z", "message": message, **more}
    if calls:
        step |= {"tool_calls": [*calls], "observation": {"results": [*results]}}
    return step


def trajectory(*steps: Any, name: str = "planner", **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.7", "agent": {"name": name, "version": "1.4"}, "steps": numbered, **more}


IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "images/map.png"}}
CHILD = trajectory(
    {"source": "user", "message": "a hotel"},
    agent_step(10, call("c1", "find_hotel"), results=[{"source_call_id": "c1", "content": "Grand"}]),
    agent_step(20, message="Grand"),
    name="hotels",
    trajectory_id="child",
)
TRIP = trajectory(
    {"source": "system", "message": "Be brief."},
    {"source": "user", "message": [{"type": "text", "text": "Plan a trip."}, IMAGE]},
    agent_step(
        5,
        call("c1", "search", q="Oslo", n=12345678901234567890123),
        call("c2", "delegate", task="hotel"),
        results=[
            {"source_call_id": "c1", "content": '[{"id": 7}]'},
            {"source_call_id": "c2", "content": None, "subagent_trajectory_ref": [{"trajectory_id": "child"}]},
        ],
        model_name="m-1",
        reasoning_content="first search",
        metrics={"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 10, "cost_usd": 0.1},
    ),
    agent_step(30, call("c3", "book", id=7), results=[{"content": "declined"}], extra={"tool_result_is_error": True}),
    agent_step(40, call("c4", "notify"), call("c5", "log"), results=[{"source_call_id": "c5", "content": ""}]),
    agent_step(50, message="It was declined.", metrics={"prompt_tokens": 5, "completion_tokens": 1}),
    session_id="s-41",
    final_metrics={"total_prompt_tokens": 999},
    subagent_trajectories=[CHILD],
)


def read(document: Any, folder: Path) -> tuple[Extraction, list[str]]:
    path = folder / "trajectory.json"
    path.write_text(json.dumps(document, indent=1))
    report = SourceReport()
    (trace,) = read_traces(read_sources([str(path)], report))
    return extract(trace), [line.removeprefix(f"{path}: ") for line in report.warnings]


def test_a_document_is_a_trace(tmp_path: Path) -> None:
    found, said = read(TRIP, tmp_path)
    assert said == []
    assert [
        (each.agent, each.name, each.arguments, each.output, each.error and each.error.message) for each in found.calls
    ] == [
        ("planner", "search", {"q": "Oslo", "n": 12345678901234567890123}, [{"id": 7}], None),
        ("planner", "delegate", {"task": "hotel"}, None, None),
        ("hotels", "find_hotel", {}, "Grand", None),
        ("planner", "book", {"id": 7}, "declined", "declined"),
        ("planner", "notify", {}, None, None),
        ("planner", "log", {}, "", None),
    ]
    assert [each.depth for each in found.calls] == [0, 0, 1, 0, 0, 0]
    assert [(run.agent, run.prompt, run.final_answer, run.session, run.model) for run in found.runs] == [
        ("planner", "Plan a trip.", "It was declined.", "s-41", "m-1"),
        ("hotels", "a hotel", "Grand", "s-41", None),
    ]
    assert (found.trace.resource.service, found.release, found.unread_tool_spans) == ("planner", "1.4", [])
    assert found.trace.complete
    tokens = added_up(model_calls(found)[found.runs[0].span_id])
    assert (tokens.input, tokens.output, tokens.cached) == (105, 21, 10)
    search = found.calls[0]
    assert (search.start_ns, search.end_ns) == (1772359205500000000, 1772359230500000000)


def test_ids_are_of_the_session_and_the_content_alone(tmp_path: Path) -> None:
    first, again = read(TRIP, tmp_path)[0], read(json.loads(json.dumps(TRIP, sort_keys=True)), tmp_path)[0]
    assert [span.span_id for span in first.trace.spans] == [span.span_id for span in again.trace.spans]
    assert first.trace.trace_id == again.trace.trace_id
    others = [TRIP | {"session_id": "s-42"}, TRIP | {"steps": TRIP["steps"][:-1]}]
    assert len({first.trace.trace_id, *(read(other, tmp_path)[0].trace.trace_id for other in others)}) == 3


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(document)
    for each in [found, *found.get("subagent_trajectories", [])]:
        for step in each["steps"]:
            step.pop("timestamp", None)
    return found


RULE = """\
id: in-time
scope: trace
evaluate:
  - {evaluator: budget, name: lasts, max_duration: 1m}
  - {evaluator: constraints, name: soon, constraints: [{before: book, comes: search, within: 1m}]}
  - {evaluator: constraints, name: order, constraints: [{before: book, comes: search}, {after: search, comes: log}]}
"""


@pytest.mark.parametrize(
    ("document", "time_read"),
    [(TRIP, "pass"), (untimed(TRIP), "not_evaluable"), (TRIP | {"steps": [*TRIP["steps"], {"source": "agent"}]}, "")],
    ids=["with timestamps", "without", "with some"],
)
def test_without_timestamps_order_is_judged_and_time_is_not(
    document: dict[str, Any], time_read: str, tmp_path: Path
) -> None:
    (tmp_path / "in-time.rule.yaml").write_text(RULE)
    rules = load_rules([str(tmp_path / "in-time.rule.yaml")])
    found, said = read(document, tmp_path)
    assert [each.name for each in found.calls][:4] == ["search", "delegate", "find_hotel", "book"]
    outcomes = {one.evaluation: one.outcome for one in judge(found.trace, rules).evaluations}
    time_read = time_read or "not_evaluable"
    assert outcomes == {"lasts": time_read, "soon": time_read, "order": "pass"}
    partly = ["not all steps of the agent have a timestamp, so that only their order is known"]
    assert said == (partly if document["steps"][-1] == {"source": "agent"} else [])


def test_steps_that_no_model_answered_copied_ones_and_late_results(tmp_path: Path) -> None:
    document = trajectory(
        agent_step(1, call("a", "old"), results=[{"source_call_id": "a", "content": "x"}], is_copied_context=True),
        agent_step(2, call("b", "dispatch", n=1), llm_call_count=0),
        agent_step(3, call("c", "slow"), call("c9", "quick")),
        {"source": "system", "message": "", "observation": {"results": [{"source_call_id": "c", "content": "late"}]}},
        schema_version="ATIF-v1.2",
    )
    found, said = read(document, tmp_path)
    assert [(each.name, each.output, each.read_from) for each in found.calls] == [
        ("dispatch", None, "span"),
        ("slow", "late", "span"),
        ("quick", None, "span"),
    ]
    assert said == []


def test_what_cannot_be_read_or_is_elsewhere_is_said(tmp_path: Path) -> None:
    elsewhere = [{"session_id": "s", "trajectory_path": "sub-1.json"}]
    document = trajectory(
        {"source": "robot", "observation": []},
        agent_step(1, {"tool_call_id": "x"}, call("a", "search"), results=[{"source_call_id": "z", "content": "?"}]),
        agent_step(2, call("b", "ask"), message=5, results=[{"content": "y", "subagent_trajectory_ref": elsewhere}]),
        schema_version="ATIF-v1.9",
        continued_trajectory_ref="trajectory.cont-1.json",
    )
    found, said = read(document, tmp_path)
    assert [each.name for each in found.calls] == ["search", "ask"]
    assert said == [
        "4 parts were not read: step 1: expected the source agent, user or system, found 'robot'; step 2: a tool call "
        "without function_name; step 3: message: expected a text or a list of parts; step 2: the result of a call 'z', "
        "which no step made",
        "ATIF-v1.9 is newer than v1.7: what it has beyond that is not read",
        "step 3: the trajectory of a sub-agent is in another file, sub-1.json",
        "it goes on in another file, trajectory.cont-1.json",
    ]


def test_totals_count_where_no_step_has_its_own(tmp_path: Path) -> None:
    document = trajectory(
        agent_step(1, message="done"), final_metrics={"total_prompt_tokens": 7, "total_completion_tokens": 2}
    )
    found, _ = read(document, tmp_path)
    assert [added_up(calls).total for calls in model_calls(found).values()] == [9]
