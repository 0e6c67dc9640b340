"""Reads ATIF, Harbor's Agent Trajectory Interchange Format, as the spans of a trace in the GenAI conventions.

A document becomes one trace: an agent's span, a model's span for each of its steps, and a tool's span for each call;
sub-agents within the document are below the call that started them. Ids are hashes of the session's id, the document
and the step. A step lasts from its timestamp to the next one. Where steps have no timestamp, only
their order is known: starts are then counted from 1, and nothing has an end, so that nothing that reads time can be
judged. Steps that were copied from an earlier trajectory (``is_copied_context``) say what the agent knew, and made no
calls.

Source: harbor-framework/harbor, rfcs/0001-trajectory-format.md (v1.7 of April 2026, and its history from v1.0 on).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from tracegrade import semconv as s
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_INTERNAL, STATUS_ERROR, STATUS_UNSET, Resource, Span
from tracegrade.otlp.files.atif_steps import Call, Result, Step, members, parts_of, read_steps, references_of, text
from tracegrade.otlp.from_spans import trace_request
from tracegrade.otlp.json import MAX_PROBLEMS, JsonRequest

_PREFIX = "ATIF-v1."
_NEWEST = 7
_MAX_DEPTH = 30
_SCOPE = "atif"
_FAILED = "tool_error"
_COUNTS = {
    s.TOKENS_IN[0]: "prompt_tokens",
    s.TOKENS_OUT[0]: "completion_tokens",
    s.TOKENS_CACHED[0]: "cached_tokens",
}


@dataclass(slots=True)
class AtifTrace:
    """A document as a request; ``remarks`` say what of the agent's work is elsewhere, or not known."""

    file_format: str
    request: JsonRequest
    remarks: list[str] = field(default_factory=list)


def is_atif(document: JsonValue) -> bool:
    """Whether a JSON document says that it is ATIF, of version 1."""
    return text(members(document).get("schema_version")).startswith(_PREFIX)


def read_atif(document: dict[str, JsonValue]) -> AtifTrace:
    """The trace of a document; steps, calls and results that cannot be read count as dropped."""
    version = text(document.get("schema_version"))
    agent = members(document.get("agent"))
    named = {s.SERVICE_NAME: text(agent.get("name")), s.SERVICE_VERSION: text(agent.get("version"))}
    identity = json.dumps([document.get("session_id"), document.get("trajectory_id"), document], sort_keys=True)
    writer = _Writer(_digest(16, identity), Resource({key: name for key, name in named.items() if name}))
    if (minor := version.removeprefix(_PREFIX)).isdigit() and int(minor) > _NEWEST:
        writer.remarks.append(f"{version} is newer than v1.{_NEWEST}: what it has beyond that is not read")
    writer.write(_Trajectory(document), b"", 0)
    request = JsonRequest(trace_request(writer.spans), writer.dropped, writer.problems)
    return AtifTrace(version.replace("-", " "), request, writer.remarks)


def _digest(size: int, *parts: str | bytes) -> bytes:
    return blake2b(b"\0".join(p if isinstance(p, bytes) else p.encode() for p in parts), digest_size=size).digest()


def _as_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


class _Trajectory:
    """One agent's trajectory, with those of its sub-agents that are in the document."""

    def __init__(self, document: dict[str, JsonValue], path: str = "", above: "_Trajectory | None" = None) -> None:
        self.document = document
        self.path = path
        self.session: str = text(document.get("session_id")) or ("" if above is None else above.session)
        self.depth: int = 0 if above is None else above.depth + 1
        self.agent = members(document.get("agent"))
        self.name = text(self.agent.get("name"))
        self.steps, self.problems = read_steps(document.get("steps"))
        own = [step for step in self.steps if step.source == "agent" and not step.is_copied]
        # A part with times in a whole without them would be taken for the whole.
        may_be_timed = above is None or above.is_timed
        self.is_timed: bool = may_be_timed and bool(own) and all(step.time_ns for step in own)
        self.lacks_times = may_be_timed and not self.is_timed and any(step.time_ns for step in own)
        self.times = [step.time_ns for step in self.steps if step.time_ns] if self.is_timed else []
        embedded = document.get("subagent_trajectories")
        self._children = [
            _Trajectory(members(item), f"{path}/{place}", self)
            for place, item in enumerate(embedded if isinstance(embedded, list) and self.depth < _MAX_DEPTH else [])
        ]
        if embedded and not self._children:
            self.problems.append(f"subagent_trajectories: expected a list, and at most {_MAX_DEPTH} within one another")

    def taken(self, references: Sequence[dict[str, JsonValue]]) -> "list[_Trajectory]":
        """The sub-agents that are named, each once."""
        named = [child for reference in references for child in self._children if child.is_named_by(reference)]
        found = list(dict.fromkeys(named))
        self._children = [child for child in self._children if child not in found]
        return found

    def rest(self) -> "list[_Trajectory]":
        """The sub-agents that nothing named."""
        return self._children

    def is_named_by(self, reference: dict[str, JsonValue]) -> bool:
        """Whether a reference is to this trajectory: by its own id, or before v1.7 by its session's."""
        own = text(self.document.get("trajectory_id"))
        if named := text(reference.get("trajectory_id")):
            return named == own
        return not own and bool(self.session) and text(reference.get("session_id")) == self.session


class _Writer:
    """Writes the spans of one document."""

    def __init__(self, trace_id: bytes, resource: Resource) -> None:
        self.spans: list[Span] = []
        self.dropped = 0
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self._trace_id = trace_id
        self._resource = resource

    def write(self, of: _Trajectory, parent: bytes, clock: int) -> int:
        """Write an agent's spans below `parent`, after the time `clock`; returns the last start."""
        self._say(of)
        agent_id = self._id(of, "agent")
        # What has no timestamp of its own comes before the first that has one.
        begin_ns = clock = max(clock + 1, min(of.times, default=0) - len(of.steps))
        pending: list[JsonValue] = []
        for place, step in enumerate(of.steps):
            clock = max(clock + 1, step.time_ns if of.is_timed else 0)
            end_ns = next((later.time_ns for later in of.steps[place + 1 :] if later.time_ns), 0) if of.is_timed else 0
            if step.source != "agent" or step.is_copied:
                pending += [*_message_without_calls(step), *_came_back(step)]
                continue
            if step.asks_model:
                self._model_step(of, step, agent_id, pending, clock, end_ns)
                pending = []
            else:
                pending += _message_without_calls(step)
            for number, call in enumerate(step.calls):
                call_id = self._tool(of, step, call, number, agent_id, clock, end_ns)
                for result in call.results:
                    clock = self._sub_agents(of.taken(result.references), of, call_id, clock)
            pending += _came_back(step)
            for result in step.loose:
                clock = self._sub_agents(of.taken(result.references), of, agent_id, clock)
        clock = self._sub_agents(of.rest(), of, agent_id, clock)
        self._agent(of, agent_id, parent, begin_ns)
        return clock

    def _sub_agents(self, children: Sequence[_Trajectory], of: _Trajectory, parent: bytes, clock: int) -> int:
        """Write sub-agents; the last start, which is that of the agent itself where it has its own times."""
        for child in children:
            last = self.write(child, parent, clock)
            clock = clock if of.is_timed else last
        return clock

    def _agent(self, of: _Trajectory, span_id: bytes, parent: bytes, begin_ns: int) -> None:
        own = [step for step in of.steps if step.source == "agent" and not step.is_copied]
        asked = of.steps[: of.steps.index(own[0])] if own else of.steps
        said = own[-1] if own and not own[-1].calls else None
        definitions = of.agent.get("tool_definitions")
        attributes: dict[str, JsonValue] = {
            s.OPERATION_NAME: "invoke_agent",
            s.AGENT_NAME: of.name,
            s.AGENT_VERSION: text(of.agent.get("version")),
            s.REQUEST_MODEL: text(of.agent.get("model_name")),
            s.CONVERSATION_ID: of.session,
            s.TOOL_DEFINITIONS: _as_json(definitions) if definitions else "",
            s.INPUT_MESSAGES: _messages([message for step in asked for message in _message_without_calls(step)]),
            s.OUTPUT_MESSAGES: _messages(_message_without_calls(said)) if said is not None else "",
        }
        # They count where no step below has tokens of its own.
        totals = members(of.document.get("final_metrics"))
        attributes |= _tokens({key.removeprefix("total_"): number for key, number in totals.items()})
        self._add(f"invoke_agent {of.name}".strip(), span_id, parent, begin_ns, max(of.times, default=0), attributes)

    def _model_step(
        self, of: _Trajectory, step: Step, parent: bytes, inputs: Sequence[JsonValue], start_ns: int, end_ns: int
    ) -> None:
        model = step.model or text(of.agent.get("model_name"))
        attributes: dict[str, JsonValue] = {
            s.OPERATION_NAME: "chat",
            s.REQUEST_MODEL: model,
            s.INPUT_MESSAGES: _messages(inputs),
            s.OUTPUT_MESSAGES: _messages([_answer(step)]),
            **_tokens(step.metrics),
        }
        self._add(
            f"chat {model}".strip(), self._id(of, str(step.position), "chat"), parent, start_ns, end_ns, attributes
        )

    def _tool(
        self, of: _Trajectory, step: Step, call: Call, number: int, parent: bytes, start_ns: int, end_ns: int
    ) -> bytes:
        span_id = self._id(of, str(step.position), str(number))
        failed = any(result.failed for result in call.results)
        attributes: dict[str, JsonValue] = {
            s.OPERATION_NAME: "execute_tool",
            s.TOOL_NAME: call.name,
            s.TOOL_CALL_ID: call.id,
            s.TOOL_CALL_ARGUMENTS: "" if call.arguments is None else _argument_text(call.arguments),
            s.ERROR_TYPE: _FAILED if failed else "",
        }
        if (output := _output(call.results)) is not None:
            attributes[s.TOOL_CALL_RESULT] = output
        error = (output or "") if failed else None
        self._add(f"execute_tool {call.name}", span_id, parent, start_ns, end_ns, attributes, error)
        return span_id

    def _add(
        self,
        name: str,
        span_id: bytes,
        parent: bytes,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, JsonValue],
        error: str | None = None,
    ) -> None:
        """Add a span; an attribute that is "" is not known, but a tool's result may be an empty text."""
        self.spans.append(
            Span(
                trace_id=self._trace_id,
                span_id=span_id,
                parent_span_id=parent,
                name=name,
                kind=KIND_INTERNAL,
                start_ns=start_ns,
                end_ns=end_ns,
                flags=0,
                status_code=STATUS_UNSET if error is None else STATUS_ERROR,
                status_message=error or "",
                attributes={
                    key: value for key, value in attributes.items() if value != "" or key == s.TOOL_CALL_RESULT
                },
                events=[],
                dropped_attributes_count=0,
                scope=_SCOPE,
                resource=self._resource,
            )
        )

    def _id(self, of: _Trajectory, *place: str) -> bytes:
        return _digest(8, self._trace_id, of.path, *place)

    def _say(self, of: _Trajectory) -> None:
        """Note what of a trajectory is not read, is elsewhere or is not known."""
        where = f"sub-agent {of.name or of.path}: " if of.depth else ""
        self.dropped += len(of.problems)
        self.problems += [f"{where}{problem}" for problem in of.problems[: MAX_PROBLEMS - len(self.problems)]]
        if of.lacks_times:
            self.remarks.append(
                f"{where}not all steps of the agent have a timestamp, so that only their order is known"
            )
        for step, reference in references_of(of.steps):
            if not any(child.is_named_by(reference) for child in of.rest()):
                named = text(reference.get("trajectory_path")) or text(reference.get("session_id")) or "without a name"
                self.remarks.append(f"{where}{step.name}: the trajectory of a sub-agent is in another file, {named}")
        if continued := text(of.document.get("continued_trajectory_ref")):
            self.remarks.append(f"{where}it goes on in another file, {continued}")


def _messages(messages: Sequence[JsonValue]) -> str:
    return _as_json([*messages]) if messages else ""


def _message_without_calls(step: Step) -> list[JsonValue]:
    """The message of a step, without what it calls; [] without one."""
    parts = _parts(step)
    return [{"role": "assistant" if step.source == "agent" else step.source, "parts": parts}] if parts else []


def _answer(step: Step) -> JsonValue:
    """The message of a model's step, with its calls."""
    calls: list[JsonValue] = [
        {"type": "tool_call", "id": call.id or None, "name": call.name, "arguments": call.arguments}
        for call in step.calls
    ]
    return {"role": "assistant", "parts": [*_parts(step), *calls]}


def _parts(step: Step) -> list[JsonValue]:
    reasoning: list[JsonValue] = [{"type": "reasoning", "content": step.reasoning}] if step.reasoning else []
    return reasoning + step.parts


def _came_back(step: Step) -> list[JsonValue]:
    """Results in a step that belong to no call that is read."""
    copied = [result for call in step.calls for result in call.results] if step.is_copied else []
    return [{"role": "tool", "parts": result.parts} for result in [*copied, *step.loose] if result.parts]


def _argument_text(arguments: JsonValue) -> str:
    return text(arguments) if isinstance(arguments, str) else _as_json(arguments)


def _output(results: Sequence[Result]) -> str | None:
    """A result, as one text where it is text; None where it is not known."""
    parts = [part for result in results for part in parts_of(result.content)]
    texts = [text(members(part).get("content")) for part in parts if members(part).get("type") == "text"]
    if len(texts) < len(parts):
        return _as_json(parts)
    return "\n".join(texts) if any(result.content is not None for result in results) else None


def _tokens(metrics: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The tokens that metrics count."""
    return {key: number for key, name in _COUNTS.items() if type(number := metrics.get(name)) is int}
