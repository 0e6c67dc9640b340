"""Nodes: the spans of a trace that a dialect reads, and which of them encloses which."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tracegrade.extract import moved_content
from tracegrade.extract.reading import Dialect, Keys, Message, SpanKind
from tracegrade.model.span import Span

# An agent's tool span, an MCP client's, an MCP server's, the tool's own; twice that to be safe. Longer chains are
# not one call.
MAX_CHAIN = 8


class Node:
    """A span that some dialect reads, with its nearest enclosing one.

    ``keys`` are those keys that the dialect reads, its own ones first, and that the span has.
    ``agent_above`` is the nearest enclosing agent node. ``run`` is the agent run that the node belongs to (for an
    agent node that is a run: itself; None: outside of any), ``agent`` an agent node's name; both set by `runs`.
    ``shows_others``: its output messages are those that other spans show.
    """

    __slots__ = (
        *("_inputs", "_outputs", "agent", "agent_above", "dialect", "keys", "kind", "parent", "run"),
        *("shows_others", "span"),
    )

    def __init__(self, span: Span, kind: SpanKind, dialect: Dialect, keys: Keys) -> None:
        self.span = span
        self.kind = kind
        self.dialect = dialect
        self.keys = keys
        self.parent: Node | None = None
        self.agent_above: Node | None = None
        self.agent = ""
        self.run: Node | None = None
        self.shows_others = False
        self._inputs: list[Message] | None = None
        self._outputs: list[Message] | None = None

    def inputs(self) -> list[Message]:
        """The messages that the span took in, read once."""
        if self._inputs is None:
            self._inputs = self.inputs_of(self.span)
        return self._inputs

    def inputs_of(self, part: Span) -> list[Message]:
        """The messages that a part of the span took in."""
        return self.dialect.inputs(part) or (moved_content.inputs(part) if part.events else [])

    def outputs(self) -> list[Message]:
        """The messages that the span put out, read once."""
        if self._outputs is None:
            span = self.span
            self._outputs = self.dialect.outputs(span) or (moved_content.outputs(span) if span.events else [])
        return self._outputs

    def named_agent(self) -> str:
        """The agent that an attribute of the span names, "" when none does."""
        return self.dialect.agent_of(self.span, self.keys)

    def show_outputs(self, messages: list[Message]) -> None:
        """Set the output messages, which another span shows."""
        self._outputs = messages
        self.shows_others = True

    def is_below(self, other: "Node") -> bool:
        """Whether `other` encloses this one, at most `MAX_CHAIN` levels up."""
        node = self.parent
        for _ in range(MAX_CHAIN):
            if node is None:
                return False
            if node is other:
                return True
            node = node.parent
        return False


def by_kind(nodes: Iterable[Node]) -> dict[SpanKind, list[Node]]:
    """The nodes of each kind, in the order given; [] for a kind of which there are none."""
    found: dict[SpanKind, list[Node]] = defaultdict(list)
    for node in nodes:
        found[node.kind].append(node)
    return found


def enclose(nodes: Sequence[Node], spans: Sequence[Span]) -> list[Node]:
    """Set each node's parent, the nearest node up its chain of parent spans, and its `agent_above`.

    Linear in spans; a cycle of parents is cut where it is first met.

    Returns:
        The nodes, every one after its parent.
    """
    by_id = {node.span.span_id: node for node in nodes}
    parents: dict[bytes, bytes] = {}
    found: dict[bytes, Node | None] = {}  # nearest node above a span that is no node itself
    for node in nodes:
        at = node.span.parent_span_id
        if not at:
            continue
        if at in by_id:  # nearly all
            node.parent = by_id[at]
            continue
        if not parents:
            parents = {span.span_id: span.parent_span_id for span in spans}
        passed: list[bytes] = []
        while at in parents and at not in by_id and at not in found:
            found[at] = None  # a cycle ends here
            passed.append(at)
            at = parents[at]
        above = by_id.get(at) or found.get(at)
        for span_id in passed:
            found[span_id] = above
        node.parent = above
    for node in nodes:
        if node.kind == "chat" and node.parent is not None and node.parent.kind == "outcome":
            node.parent.kind = "agent"  # a tool's execution that calls a model is an agent's run
    return _top_down(nodes)


def _top_down(nodes: Sequence[Node]) -> list[Node]:
    ordered: list[Node] = []
    done: set[Node] = set()
    for node in nodes:
        above = node.parent
        if above is None or above in done:  # nearly all: parents start before their children
            if node not in done:
                done.add(node)
                ordered.append(node)
                node.agent_above = above if above is None or above.kind == "agent" else above.agent_above
            continue
        chain: list[Node] = []
        at: Node | None = node
        while at is not None and at not in done:
            done.add(at)
            chain.append(at)
            at = at.parent
        if at is not None and at in chain:
            chain[-1].parent = None
        for item in reversed(chain):
            above = item.parent
            item.agent_above = above if above is None or above.kind == "agent" else above.agent_above
        ordered += reversed(chain)
    return ordered
