"""The variables of a CEL expression, their members and their types.

`match.facts` hands over all of `VARIABLES` but what is ``judged``, which the evaluator `condition` adds; the table of
the documentation is made of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CelType:
    """A type of values.

    ``kind`` is its name; ``item`` is the type of a list's items, ``fields`` what an object has (None: any text may be a
    key), ``called`` what people call it.
    """

    kind: str
    called: str
    item: "CelType | None" = None
    fields: "Mapping[str, Field] | None" = None


@dataclass(frozen=True, slots=True)
class Field:
    """A variable, or a member of an object: its type, and what it says.

    ``judged``: it is known only when a subject is judged, so no clause may name it.
    """

    type: CelType
    summary: str
    judged: bool = False


ANY = CelType("any", "any value")
INT = CelType("int", "a whole number")
UINT = CelType("uint", "a whole number without sign")
DOUBLE = CelType("double", "a number with decimals")
TEXT = CelType("text", "a text")
BOOL = CelType("bool", "true or false")
BYTES = CelType("bytes", "bytes")
NULL = CelType("null", "null")
TIME = CelType("time", "a time")
DURATION = CelType("duration", "a duration")
TYPE = CelType("type", "a type")
MAP = CelType("map", "an object")


def list_of(item: CelType) -> CelType:
    """A list whose items are of one type."""
    return CelType("list", "a list", item)


CALL = CelType(
    "map",
    "a call",
    fields={
        "name": Field(TEXT, "the tool's name"),
        "arguments": Field(MAP, "what it was given, by name: `c.arguments.amount`; not there if it cannot be read"),
        "output": Field(ANY, "what it returned; not there if it was not recorded, or cannot be read"),
        "failed": Field(BOOL, "whether it ended with an error"),
        "error": Field(TEXT, 'the error\'s message, "" without one'),
        "attempt": Field(INT, "1, and one more for each earlier call of the same tool with the same arguments"),
        "agent": Field(TEXT, 'the agent that made it, "" if it has no name'),
        "start_ms": Field(DOUBLE, "when it began, in ms after the first call; not there without times"),
        "duration_ms": Field(DOUBLE, "how long it took, in ms; not there without times"),
    },
)
HANDOFF = CelType(
    "map",
    "a handoff",
    fields={
        "from": Field(TEXT, 'the agent that passed its task on, "" if it has no name'),
        "to": Field(TEXT, "the agent that got it; not there if that was not recorded"),
        "start_ms": Field(DOUBLE, "when, in ms after the first call; not there without times"),
        "seen_in": Field(TEXT, "`calls`, `spans` or `runs`, as of the evaluator `handoffs`"),
        "calls_before": Field(INT, "how many tool calls that are no handoffs were made before it"),
    },
)
CALL_VALUES = frozenset({"arguments", "output"})
"""The members of a call that may be large."""
TRACE = CelType(
    "map",
    "the trace",
    fields={
        "id": Field(TEXT, "its id, 32 hex digits"),
        "duration_ms": Field(DOUBLE, "from its first start to its last end, in ms"),
        "span_count": Field(INT, "how many spans it has"),
        "complete": Field(BOOL, "whether nothing of it is missing"),
        "session": Field(TEXT, 'the conversation\'s id, "" without one'),
    },
)
VARIABLES: dict[str, Field] = {
    "service": Field(TEXT, '`service.name` of the resource, "" without one'),
    "environment": Field(TEXT, 'the deployment environment of the resource, "" without one'),
    "release": Field(TEXT, '`service.version` of the resource, "" without one'),
    "agent": Field(TEXT, 'the agent\'s name, "" without one'),
    "session": Field(TEXT, 'the conversation\'s id, "" without one'),
    "prompt": Field(TEXT, "the run's prompt; where it cannot be read, the rule is not_evaluable"),
    "answer": Field(TEXT, "the run's final answer; where it cannot be read, the rule is not_evaluable"),
    "tools": Field(list_of(TEXT), "the names of the tools that were called"),
    "attributes": Field(CelType("map", "the attributes"), 'attributes by name, as in the clause: `attributes["NAME"]`'),
    "calls": Field(list_of(CALL), "the calls, in their order"),
    "handoffs": Field(list_of(HANDOFF), "who passed the task on to whom, in order of time; of an agent run, its own"),
    "trace": Field(TRACE, "the trace"),
    "tokens": Field(INT, "the tokens of the run's model calls, in and out; only in `condition`", judged=True),
    "cost": Field(DOUBLE, "what they cost, by the prices in `traces.prices`; only in `condition`", judged=True),
}
