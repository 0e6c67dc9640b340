"""Agents called as tools, of which nothing says that they are agents: a tool's execution within which models work.

Senders that have no word for an agent, or whose user gave none, write the span of one as that of any function::

    tool ask_stock             the execution
      stock_agent              a span that no dialect reads
        chat                   asks for count_boxes
        tool count_boxes
        chat

The outermost span below the execution around the model calls is the agent's run, where it has a name that can be an
agent's; else the one whose steps say whose they are. Without a name the calls stay the outer agent's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Keys
from tracegrade.extract.shape import dialect as own_keys
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.extract.shape.names import FRAME, agent_in
from tracegrade.extract.shape.words import words_of
from tracegrade.model.span import KIND_INTERNAL, Span

_MAX_LEVELS = 32
_MAX_STEPS = 16
# Names of parts of any agent, and of what graphs and chains have at their top.
_ANYBODYS = FRAME | {"agent", "agents", "model", "models", "llm", "chat", "completion", "chain", "graph", "workflow"}
_ANYBODYS |= {"tools", "node", "main", "loop", "turn", "input", "output", "invoke", "ainvoke", "generate", "stream"}
_IDENTIFIER = re.compile(r"[^\W\d][\w\-]*\Z")
# LlamaIndex's steps tell whose they are in the event that they took or gave, as a repr or as JSON; its name comes after
# the messages, which may quote another.
_EVENT = re.compile(r"""["']?[A-Z]\w*\(|["']?\s*\{""")
_WHOSE_STEP = re.compile(r"""\bcurrent_agent_name\\*["']?\s*[=:]\s*\\*["']([^"'\\]+)""")


def agents_within_tools(around: Iterable[Node | None], nodes: Sequence[Node], spans: Sequence[Span]) -> list[Node]:
    """Nodes for the spans that are such agents' runs, in no order.

    Args:
        around: the parents of the nodes of tools, each once.
        nodes: those of the trace, each with its parent.
        spans: all spans of the trace.
    """
    busy = {host for above in around if (host := _host(above)) is not None}  # others ask a model something
    if not busy:
        return []  # nearly always
    inner = [
        (node, host)
        for node in nodes
        if node.kind in ("chat", "tool") and (host := _host(node.parent)) is not None and host in busy
    ]
    models = {host for node, host in inner if node.kind == "chat"}
    by_id: dict[bytes, Span] = {}
    steps: dict[bytes, list[Span]] = {}
    for span in spans:
        by_id[span.span_id] = span
        steps.setdefault(span.parent_span_id, []).append(span)
    names: dict[bytes, str] = {}
    found: dict[bytes, Node] = {}
    for node, host in inner:
        for place, span in enumerate(_between(host.span, node.span, by_id)):
            if span.span_id not in names:
                own = _name_in(span) if not place and host in models else ""
                names[span.span_id] = own or _said_by(steps.get(span.span_id, ()))
            if name := names[span.span_id]:
                found.setdefault(span.span_id, _run(span, name))
                break
    return list(found.values())


def _run(span: Span, name: str) -> Node:
    shown = replace(span, attributes={**span.attributes, own_keys.NAME: name})
    return Node(shown, "agent", SHAPE, Keys(agent=(own_keys.NAME,)))


def _host(above: Node | None) -> Node | None:
    """The tool's execution that is `above` a node, or what of an agent without a name lies between."""
    if above is None or above.kind == "tool":
        return above
    is_shown = above.kind == "agent" and above.parent is not None and above.parent.kind == "tool"
    return above if is_shown and not (above.named_agent() or above.dialect.agent_name(above.span)) else None


def _between(outer: Span, inner: Span, by_id: Mapping[bytes, Span]) -> list[Span]:
    """The spans below `outer` that are around `inner`, outermost first; [] where another process is between them."""
    found: list[Span] = []
    at = by_id.get(inner.parent_span_id)
    while at is not None and at.kind <= KIND_INTERNAL and len(found) < _MAX_LEVELS:
        if at.span_id == outer.span_id:
            return found[::-1]
        found.append(at)
        at = by_id.get(at.parent_span_id)
    return []


def _name_in(span: Span) -> str:
    """The agent's name that the name of a span is, "" where it is none."""
    name = agent_in(span.name)
    return name if _IDENTIFIER.match(name) and not _ANYBODYS.issuperset(words_of(name)) else ""


def _said_by(steps: Sequence[Span]) -> str:
    """The agent that the first of these steps which say it are of, "" where none does."""
    return next((name for step in steps[:_MAX_STEPS] if (name := _whose(step))), "")


def _whose(step: Span) -> str:
    """The agent that a step says it is of."""
    for value in step.attributes.values():
        if type(value) is str and _EVENT.match(value) and (names := _WHOSE_STEP.findall(value)):
            return str(names[-1])
    return ""
