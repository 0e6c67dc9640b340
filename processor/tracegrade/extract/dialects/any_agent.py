"""any-agent: the GenAI conventions with arguments in `gen_ai.tool.args` and every result and answer in `gen_ai.output`.

Of a model call that is a list of the calls that it asked for, without ids, or a text.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import parse_plain
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Keys, Message, RequestedCall
from tracegrade.model.span import Span

_NAME = "tool.name"
_ARGUMENTS = "tool.args"


def _outputs(span: Span) -> list[Message]:
    messages = gen_ai.DIALECT.outputs(span)
    raw = span.attributes.get(s.ANY_AGENT_OUTPUT)
    if messages or gen_ai.DIALECT.classify(span) == "tool":
        return messages
    value = parse_plain(raw)
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    calls = tuple(
        RequestedCall(name, None, item.get(_ARGUMENTS), f"0/{place}")
        for place, item in enumerate(items)
        if isinstance(name := item.get(_NAME), str) and name
    )
    if calls:
        return [Message("assistant", "", calls)]
    return [Message("assistant", raw)] if isinstance(raw, str) and raw else []


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="any_agent",
    marks=frozenset({s.ANY_AGENT_OUTPUT}),
    classify=gen_ai.DIALECT.classify,
    keys=Keys(arguments=(s.ANY_AGENT_ARGUMENTS,), output=(s.ANY_AGENT_OUTPUT,)),
    outputs=_outputs,
)
