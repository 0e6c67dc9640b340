"""OpenLIT: the GenAI conventions, and on a model call's span the calls that it asked for, each key for all of them.

``gen_ai.tool.name`` and ``gen_ai.tool.call.id`` are joined by commas, and so are the arguments, value after value.
Not all of its instrumentations write the calls into the output messages as well. Source: openlit 1.45.0, semcov.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import ABSENT, call_id, decode, first_text
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, Message, RequestedCall, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TOOL_ARGS = "gen_ai.tool.args"
_HANDED_OVER_BY = "gen_ai.agent.source"
_TOKEN_USAGE = "gen_ai.client.token.usage"

_SCOPE = "openlit"


def _classify(span: Span) -> SpanKind | None:
    is_handoff = _HANDED_OVER_BY in span.attributes and s.AGENT_NAME in span.attributes
    return "handoff" if is_handoff else gen_ai.DIALECT.classify(span)


def _handed_over(span: Span) -> HandedOver | None:
    """The agents of a handoff of the OpenAI Agents SDK, which is written as the run of an agent, with who called it."""
    if _classify(span) != "handoff":
        return None
    return HandedOver(first_text(span, (_HANDED_OVER_BY,)), first_text(span, (s.AGENT_NAME,)))


def _outputs(span: Span) -> list[Message]:
    return read_outputs(span) if span.scope.startswith(_SCOPE) else gen_ai.DIALECT.outputs(span)


def read_outputs(span: Span) -> list[Message]:
    """The messages of a model call, with the calls that only its keys show."""
    messages = gen_ai.DIALECT.outputs(span)
    if any(message.calls for message in messages):
        return messages
    attributes = span.attributes
    names = _parts(attributes.get(s.TOOL_NAME))
    if not names:
        return messages
    ids = _parts(attributes.get(s.TOOL_CALL_ID))
    raw = attributes.get(_TOOL_ARGS) or attributes.get(s.TOOL_CALL_ARGUMENTS)
    arguments = [raw] if len(names) == 1 else _values(raw)
    # Each key leaves out what is empty: then it is not known whose the others are.
    calls = tuple(
        RequestedCall(
            name,
            call_id(ids[place]) if len(ids) == len(names) else None,
            arguments[place] if len(arguments) == len(names) else None,
            f"0/{place}",
        )
        for place, name in enumerate(names)
    )
    return [Message("assistant", messages[0].text if messages else "", calls)]


def _parts(value: JsonValue) -> list[str]:
    return [part for text in value.split(",") if (part := text.strip())] if isinstance(value, str) else []


def _values(value: JsonValue) -> list[JsonValue]:
    """The values in a text, JSON or Python's, one after another, or in a list; [] where it holds anything else."""
    if isinstance(value, list):
        return value
    if isinstance(value, str) and isinstance(whole := decode(value).value, list):
        return whole
    found = decode(f"[{value}]") if isinstance(value, str) else ABSENT
    return found.value if isinstance(found.value, list) and found.is_readable else []


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="openlit",
    marks=frozenset({_TOOL_ARGS, _TOKEN_USAGE, _HANDED_OVER_BY}),
    keys=Keys(arguments=(_TOOL_ARGS,)),
    holds=Holds(structure=(_TOKEN_USAGE, _HANDED_OVER_BY)),
    classify=_classify,
    outputs=_outputs,
    handed_over=_handed_over,
)
