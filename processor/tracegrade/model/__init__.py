"""The records that travel along the path; no behaviour but what follows from their fields.

``Span``, ``LogRecord`` and ``Trace`` are what assembly makes, ``ToolCall``, ``AgentRun`` and ``Session`` what
extraction reads out of them, ``Subject`` what a rule judges, ``Evaluation`` and ``Decision`` what comes of it.
"""

from tracegrade.model.agent_run import AgentRun
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.log_record import LogRecord
from tracegrade.model.session import Session
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.subject import Subject
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace import Trace

__all__ = [
    "AgentRun",
    "Decision",
    "Evaluation",
    "Extraction",
    "JsonValue",
    "LogRecord",
    "Resource",
    "Session",
    "Span",
    "SpanEvent",
    "Subject",
    "ToolCall",
    "ToolError",
    "Trace",
    "TraceGradeError",
]
