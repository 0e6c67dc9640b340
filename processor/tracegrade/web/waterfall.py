"""The spans of a trace as lines of a waterfall: in the order of a tree, each with its place in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracegrade.model.extraction import Extraction
from tracegrade.model.span import STATUS_ERROR, Span

SpanKind: TypeAlias = Literal["agent", "model", "tool", "other"]

WIDTH = 1000.0
_LEAST = 3.0
_MODEL_WORDS = ("chat", "text_completion", "generate_content", "embeddings", "llm")


@dataclass(frozen=True, slots=True)
class Line:
    """One span; ``x`` and ``width`` are parts of `WIDTH`, ``lost_parent`` is the hex id of a missing parent."""

    span: Span
    depth: int
    kind: SpanKind
    x: float
    width: float
    offset_ns: int
    lost_parent: str

    @property
    def failed(self) -> bool:
        """Whether the span's status is an error."""
        return self.span.status_code == STATUS_ERROR


def waterfall(spans: Sequence[Span], extraction: Extraction) -> list[Line]:
    """One line for each span, children below their parent; also for spans whose parents form a cycle."""
    if not spans:
        return []
    start = min(span.start_ns for span in spans)
    length = max(1, max(span.end_ns for span in spans) - start)
    agents = {run.span_id for run in extraction.runs}
    tools = {span_id for call in extraction.calls for span_id in (call.span_id, *call.also_seen_in)}
    known = {span.span_id for span in spans}

    def line(span: Span, depth: int) -> Line:
        span_id = span.span_id.hex()
        lost = span.parent_span_id and span.parent_span_id not in known and not span.is_local_root
        x = WIDTH * (span.start_ns - start) / length
        width = max(_LEAST, WIDTH * (span.end_ns - span.start_ns) / length)
        return Line(
            span,
            depth,
            "agent" if span_id in agents else "model" if _is_model(span) else "tool" if span_id in tools else "other",
            min(x, WIDTH - _LEAST),
            width,
            span.start_ns - start,
            span.parent_span_id.hex() if lost else "",
        )

    return [line(span, depth) for span, depth in _in_tree_order(spans, known)]


def _is_model(span: Span) -> bool:
    attributes = span.attributes
    said = attributes.get("gen_ai.operation.name") or attributes.get("openinference.span.kind") or ""
    return isinstance(said, str) and said.lower() in _MODEL_WORDS


def _in_tree_order(spans: Sequence[Span], known: set[bytes]) -> list[tuple[Span, int]]:
    children: dict[bytes, list[Span]] = {}
    roots = []
    for span in spans:
        if span.parent_span_id in known and span.parent_span_id != span.span_id:
            children.setdefault(span.parent_span_id, []).append(span)
        else:
            roots.append(span)
    found: list[tuple[Span, int]] = []
    seen: set[bytes] = set()
    # Only cycles, which are senders' mistakes, are left after the roots: each begins at its first span.
    for begin in (*roots, *spans):
        stack = [(begin, 0)]
        while stack:
            span, depth = stack.pop()
            if span.span_id in seen:
                continue
            seen.add(span.span_id)
            found.append((span, depth))
            stack += [(child, depth + 1) for child in reversed(children.get(span.span_id, ()))]
    return found
