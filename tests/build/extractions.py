"""What extraction gives of a trace, for tests of matching and judging."""

from collections.abc import Sequence
from typing import Any

from build.calls import call
from build.traces import span
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Resource, Span
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace

ROOT, SUB, TOOL = "aa" * 8, "bb" * 8, "cc" * 8
SHOP = Resource({"service.name": "shop-eu", "service.version": "1.4.0", "deployment.environment.name": "prod"})


def span_of(span_id: str, parent: str = "", resource: Resource = SHOP, **attributes: Any) -> Span:
    """A span of the agent, by its hex id."""
    made = span(int(span_id, 16), int(parent, 16) if parent else None, trace=bytes(16), attributes=attributes)
    made.name, made.start_ns, made.end_ns, made.flags, made.resource = span_id, 1, 2, 0, resource
    return made


def call_of(name: str, span_id: str = TOOL, run: str = ROOT, **fields: Any) -> ToolCall:
    """A call that the run of the span `run` made without arguments."""
    known = {"span_id": span_id, "agent": "support", "agent_span_id": run, "start_ns": 1, "end_ns": 2}
    return call(name, {}, **known | fields)


def extraction_of(
    runs: Sequence[AgentRun] | None = None, spans: Sequence[Span] | None = None, session: str | None = None
) -> Extraction:
    """One support run that created an order, unless said otherwise."""
    if runs is None:
        runs = [AgentRun(ROOT, "support", prompt="Please  order 2 pens", final_answer="done")]
        runs[0].calls = [call_of("create_order")]
    trace = Trace(bytes(16), "default", list(spans or [span_of(ROOT), span_of(TOOL, ROOT)]), "settled", [], 2)
    return Extraction(trace, list(runs), [call for run in runs for call in run.calls], session=session)
