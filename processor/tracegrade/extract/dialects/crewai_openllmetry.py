"""CrewAI through OpenLLMetry or Langtrace: a crew's span, with the `repr` of its tasks' outputs and all messages in it.

Tools have no spans, and model calls only where their client is instrumented as well. Source:
opentelemetry-instrumentation-crewai 0.62.4; langtrace-python-sdk 3.8.21; crewai 1.15.30, tasks/task_output.py.
"""

from collections.abc import Iterator
from dataclasses import replace

from tracegrade.extract.decode.reprs import read_repr
from tracegrade.extract.decode.values import first_text
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import read_messages, since_last_user
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TASKS_OUTPUT = "crewai.crew.tasks_output"
_CREW_NAME = "crewai.crew.name"


def _tasks(span: Span) -> Iterator[dict[str, JsonValue]]:
    """The outputs of the crew's tasks in order."""
    raw = span.attributes.get(_TASKS_OUTPUT)
    tasks = read_repr(raw) if isinstance(raw, str) else None
    return (task for task in (tasks if isinstance(tasks, list) else []) if isinstance(task, dict))


def _outputs(span: Span) -> list[Message]:
    found: list[Message] = []
    for task in _tasks(span):
        messages = since_last_user(read_messages(task.get("messages")))
        failures = task.get("tool_failures")
        for failure in failures if isinstance(failures, list) else []:
            _mark_failed(messages, failure)
        found += messages
    return [_at(message, position) for position, message in enumerate(found)]


def _at(message: Message, position: int) -> Message:
    calls = tuple(call._replace(path=f"{position}/{place}") for place, call in enumerate(message.calls))
    return replace(message, calls=calls)


def _mark_failed(messages: list[Message], record: JsonValue) -> None:
    """Mark the first result of the tool that failed in which stands what went wrong."""
    failure = record.get("failure") if isinstance(record, dict) else None
    said = failure.get("message") if isinstance(failure, dict) else None
    if not isinstance(record, dict) or not isinstance(said, str) or not said:
        return
    ids = {call.call_id for message in messages for call in message.calls if call.name == record.get("tool_name")}
    for message in messages:
        for place, result in enumerate(message.results):
            if result.call_id in ids and isinstance(result.output, str) and said in result.output:
                failed = result._replace(failed=True)
                message.results = (*message.results[:place], failed, *message.results[place + 1 :])
                return


def _inputs(span: Span) -> list[Message]:
    """What the first task was."""
    task: dict[str, JsonValue] = next(_tasks(span), {})
    description = task.get("description")
    return [Message("user", description)] if isinstance(description, str) else []


def _classify(span: Span) -> SpanKind | None:
    """What the conventions say; a crew's run where they say nothing (Langtrace)."""
    return gen_ai.DIALECT.classify(span) or "agent"


def _agent_name(span: Span) -> str:
    """The only agent that had a task, else the crew: the spans do not say which of them called what."""
    agents = {agent for task in _tasks(span) if isinstance(agent := task.get("agent"), str)}
    return agents.pop() if len(agents) == 1 else first_text(span, (_CREW_NAME,))


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="crewai_openllmetry",
    marks=frozenset({_TASKS_OUTPUT}),
    classify=_classify,
    keys=Keys(answer=("crewai.crew.result",)),
    holds=Holds(structure=(_CREW_NAME,), messages=(_TASKS_OUTPUT,)),
    outputs=_outputs,
    inputs=_inputs,
    agent_name=_agent_name,
)
