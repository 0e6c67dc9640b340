"""How spans were read: which calls by shape, and which spans not at all, with what would make it certain.

The page, the API, ``why``, ``traces show``, ``extract`` and ``doctor`` say it in these words.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tracegrade.display import count
from tracegrade.extract.unread import keys_of, read_by_shape, unread_spans
from tracegrade.model.extraction import UNREAD, Extraction, WhyUnread

_MAX_TOOLS = 5

_DIALECT = "switch the sender to the GenAI conventions, or write a dialect (docs/extend/dialect.md)"
BY_SHAPE_ADVICE = f"to be certain, {_DIALECT}"
_ADVICE: dict[WhyUnread, str] = {
    "tool span without a name": "have the sender record the tool's name as gen_ai.tool.name",
    "tool span outside an agent's work": _DIALECT,
    "messages not readable": "have the sender record gen_ai.input.messages and gen_ai.output.messages, or write a "
    "dialect (docs/extend/dialect.md)",
    "calls announced and not shown": "have the sender record its messages, or the spans of its tools",
    "model span of no known dialect": _DIALECT,
    "function that may be a tool": "have the sender record its models' messages, or spans of the kind tool",
}


class ByShape(NamedTuple):
    """The number of calls of one scope that were read by shape, and the sorted names of their tools."""

    scope: str
    calls: int
    tools: list[str]

    @property
    def sentence(self) -> str:
        """The calls, and why they are not certain."""
        named = ", ".join(self.tools[:_MAX_TOOLS]) + (", ..." if len(self.tools) > _MAX_TOOLS else "")
        verb = "was" if self.calls == 1 else "were"
        return (
            f"{count(self.calls, 'call')} of {named} {verb} read by shape: no dialect knows "
            f"the spans of {_scope(self.scope)}"
        )


class UnreadSpan(NamedTuple):
    """A span that was not read: its hex id, name and scope, a clause that says why, and what would have it read.

    ``keys`` are its attributes' where it looks like a tool call; else None.
    """

    span_id: str
    name: str
    scope: str
    reason: str
    advice: str
    keys: list[str] | None

    @property
    def sentence(self) -> str:
        """The span, its scope, and why it was not read."""
        return f"Span {self.span_id} {self.name!r} of {_scope(self.scope)} was not read: {self.why}"

    @property
    def why(self) -> str:
        """The reason, with the attributes where they are known."""
        return self.reason if self.keys is None else f"{self.reason}; attributes: {', '.join(self.keys) or 'none'}"


def _scope(scope: str) -> str:
    return f"scope {scope!r}" if scope else "the scope without a name"


def by_shape(extractions: Iterable[Extraction]) -> list[ByShape]:
    """The calls that no dialect reads, by the scope of their spans, in the order of their first calls."""
    tools: dict[str, Counter[str]] = {}
    for extraction in extractions:
        for call, span in read_by_shape(extraction):
            tools.setdefault(span.scope, Counter())[call.name] += 1
    return [ByShape(scope, found.total(), sorted(found)) for scope, found in tools.items()]


def spans_not_read(extraction: Extraction) -> list[UnreadSpan]:
    """The spans that look like an agent's work and were not read, each once, in the trace's order."""
    if not (extraction.unread or extraction.unread_tool_spans):
        return []
    work = {item.span_id: item.why for item in extraction.unread}
    keys = {span.span_id: keys_of(span) for span in unread_spans(extraction)}
    found = []
    for span in extraction.trace.spans:
        span_id = span.span_id.hex()
        if (why := work.get(span_id)) is not None:
            reason, advice = UNREAD[why], _ADVICE[why]
        elif span.span_id in keys:
            reason, advice = "it looks like a tool call, and no dialect reads it", _DIALECT
        else:
            continue
        found.append(UnreadSpan(span_id, span.name, span.scope, reason, advice, keys.get(span.span_id)))
    return found
