"""Reads the steps of an ATIF trajectory: messages, calls, and which results belong to which calls.

Source: harbor-framework/harbor, rfcs/0001-trajectory-format.md, v1.0 to v1.7. What says that a call failed is no part
of it: ``is_error`` is the word of the providers' APIs, and Harbor's converter of Claude Code writes
``tool_result_is_error`` beside a step's only call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tracegrade.model.json_value import JsonValue

_SOURCES = {"agent": "agent", "assistant": "agent", "user": "user", "human": "user", "system": "system"}
_FAILED_KEYS = ("is_error", "tool_result_is_error")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Result:
    """The result of a call: ``content`` as it is written, ``parts`` as parts of a message.

    ``references`` name trajectories of sub-agents.
    """

    call_id: str
    content: JsonValue
    failed: bool
    references: list[dict[str, JsonValue]]

    @property
    def parts(self) -> list[JsonValue]:
        """The content as parts of a message."""
        return parts_of(self.content)


@dataclass(slots=True)
class Call:
    """A call of a tool; ``results`` are those that name it, or are its step's only one."""

    id: str
    name: str
    arguments: JsonValue
    results: list[Result] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """One step; ``loose`` results belong to no call. ``time_ns`` is 0 without a timestamp, ``name`` is for messages.

    ``is_copied``: it is of an earlier trajectory; ``asks_model``: it is what a model answered.
    """

    position: int
    name: str
    source: str
    time_ns: int
    model: str
    parts: list[JsonValue]
    reasoning: str
    calls: list[Call]
    loose: list[Result]
    metrics: dict[str, JsonValue]
    is_copied: bool
    asks_model: bool


def members(value: JsonValue) -> dict[str, JsonValue]:
    """An object's members; {} for anything else."""
    return value if isinstance(value, dict) else {}


def text(value: JsonValue) -> str:
    """A text that protobuf can hold; "" for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def parts_of(content: JsonValue) -> list[JsonValue]:
    """A text, or a list of texts and images, as parts of a message in the GenAI conventions."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    found: list[JsonValue] = []
    for part in content if isinstance(content, list) else []:
        source = members(members(part).get("source"))
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            found.append({"type": "text", "content": part["text"]})
        elif source:
            kind, mime_type = text(members(part).get("type")), text(source.get("media_type"))
            found.append({"type": "uri", "modality": kind, "mime_type": mime_type, "uri": text(source.get("path"))})
        else:
            found.append(part)
    return found


def read_steps(value: JsonValue) -> tuple[list[Step], list[str]]:
    """The steps of a trajectory with their results in place, and a line for each thing that cannot be read."""
    if not isinstance(value, list):
        return [], ["steps: expected a list"]
    problems: list[str] = []
    steps: list[Step] = []
    for position, item in enumerate(value, 1):
        step = members(item)
        name = f"step {step.get('step_id', position)}"
        source = _SOURCES.get(text(step.get("source")).lower())
        if source is None:
            found = repr(step["source"])[:40] if "source" in step else "none"
            problems.append(f"{name}: expected the source agent, user or system, found {found}")
            continue
        steps.append(_step(position, name, source, step, problems))
    _place_results(steps, problems)
    return steps, problems


def _step(position: int, name: str, source: str, step: dict[str, JsonValue], problems: list[str]) -> Step:
    calls = []
    for item in _list(step, "tool_calls", name, problems):
        call = members(item)
        if tool := text(call.get("function_name")):
            calls.append(Call(text(call.get("tool_call_id")), tool, call.get("arguments")))
        else:
            problems.append(f"{name}: a tool call without function_name")
    observation = step.get("observation")
    if not isinstance(observation, dict | None):
        problems.append(f"{name}: observation: expected an object")
    if not isinstance(step.get("message"), str | list | None):
        problems.append(f"{name}: message: expected a text or a list of parts")
    observation = members(observation)
    results = [
        _result(members(item), step, only=len(calls) == 1) for item in _list(observation, "results", name, problems)
    ]
    return Step(
        position=position,
        name=name,
        source=source,
        time_ns=_time_ns(step.get("timestamp")),
        model=text(step.get("model_name")),
        parts=parts_of(step.get("message")),
        reasoning=text(step.get("reasoning_content")),
        calls=calls,
        loose=results,
        metrics=members(step.get("metrics")),
        is_copied=step.get("is_copied_context") is True,
        asks_model=source == "agent" and step.get("llm_call_count") != 0,
    )


def _list(holder: dict[str, JsonValue], key: str, name: str, problems: list[str]) -> list[JsonValue]:
    value = holder.get(key)
    if isinstance(value, list):
        return value
    if value is not None:
        problems.append(f"{name}: {key}: expected a list")
    return []


def _result(result: dict[str, JsonValue], step: dict[str, JsonValue], *, only: bool) -> Result:
    extras = [result, members(result.get("extra")), *([members(step.get("extra"))] if only else [])]
    references = result.get("subagent_trajectory_ref")
    return Result(
        call_id=text(result.get("source_call_id")),
        content=result.get("content"),
        failed=any(extra.get(key) is True for extra in extras for key in _FAILED_KEYS),
        references=[members(item) for item in (references if isinstance(references, list) else [references]) if item],
    )


def _time_ns(timestamp: JsonValue) -> int:
    """The time of an ISO 8601 timestamp, without a zone in UTC; 0 where it is none."""
    try:
        time = datetime.fromisoformat(text(timestamp))
    except ValueError:
        return 0
    return (time.replace(tzinfo=time.tzinfo or UTC) - _EPOCH) // _MICROSECOND * 1000


def _place_results(steps: Sequence[Step], problems: list[str]) -> None:
    """Give each result to the latest call before it that it names, or to its step's only call."""
    made: dict[str, Call] = {}
    for step in steps:
        made |= {call.id: call for call in step.calls if call.id}
        loose = []
        is_only = len(step.calls) == len(step.loose) == 1
        for result in step.loose:
            call = made.get(result.call_id) if result.call_id else step.calls[0] if is_only else None
            if call is not None:
                call.results.append(result)
                continue
            if result.call_id:
                problems.append(f"{step.name}: the result of a call {result.call_id[:40]!r}, which no step made")
            loose.append(result)
        step.loose = loose


def references_of(steps: Sequence[Step]) -> Iterator[tuple[Step, dict[str, JsonValue]]]:
    """Every reference to a sub-agent's trajectory, with its step."""
    for step in steps:
        for result in [*step.loose, *(result for call in step.calls for result in call.results)]:
            for reference in result.references:
                yield step, reference
