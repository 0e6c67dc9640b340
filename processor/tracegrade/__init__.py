"""TraceGrade: judges the tool calls of AI agents from their OpenTelemetry traces.

The library's front door. Names load what they need when they are first used; no server is among it. Dialects and
evaluators of installed packages are loaded by `load_rules` and `read_traces`; code that builds rules and calls
neither calls `load_plugins` first:

    import tracegrade

    rules = tracegrade.load_rules(["builtin:demo"])
    for trace in tracegrade.read_traces(["traces.json"], rules):
        for evaluation in tracegrade.evaluate_trace(trace, rules).evaluations:
            print(evaluation.rule_id, evaluation.outcome, evaluation.full_explanation)
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracegrade.judge import Judgement
    from tracegrade.judge import judge as evaluate_trace
    from tracegrade.model.agent_run import AgentRun
    from tracegrade.model.errors import TraceGradeError
    from tracegrade.model.evaluation import Decision, Evaluation
    from tracegrade.model.extraction import Extraction
    from tracegrade.model.span import Resource, Span, SpanEvent
    from tracegrade.model.subject import Subject
    from tracegrade.model.tool_call import ToolCall
    from tracegrade.model.trace import Trace
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.load import load_rules
    from tracegrade.rule.rule_set import RuleSet

__all__ = [
    "AgentRun",
    "Decision",
    "Evaluation",
    "Extraction",
    "Judgement",
    "Resource",
    "RuleSet",
    "Session",
    "Span",
    "SpanEvent",
    "Subject",
    "ToolCall",
    "Trace",
    "TraceGradeError",
    "evaluate_trace",
    "load_plugins",
    "load_rules",
    "read_traces",
]

# name -> where it is, and what it is called there
_HOMES = {
    "AgentRun": ("model.agent_run", "AgentRun"),
    "Decision": ("model.evaluation", "Decision"),
    "Evaluation": ("model.evaluation", "Evaluation"),
    "Extraction": ("model.extraction", "Extraction"),
    "Judgement": ("judge", "Judgement"),
    "Resource": ("model.span", "Resource"),
    "RuleSet": ("rule.rule_set", "RuleSet"),
    "Session": ("model.session", "Session"),
    "Span": ("model.span", "Span"),
    "SpanEvent": ("model.span", "SpanEvent"),
    "Subject": ("model.subject", "Subject"),
    "ToolCall": ("model.tool_call", "ToolCall"),
    "Trace": ("model.trace", "Trace"),
    "TraceGradeError": ("model.errors", "TraceGradeError"),
    "evaluate_trace": ("judge", "judge"),
    "load_plugins": ("plugins.installed", "load_plugins"),
    "load_rules": ("rule.load", "load_rules"),
}


def read_traces(sources: Sequence[str], rules: "RuleSet | None" = None) -> "list[Trace]":
    """The traces in files, whole, in order of their first appearance.

    Args:
        sources: files or folders of traces, in any format that `tracegrade extract` takes; all of them are one input.
        rules: what they will be judged by; the attributes that these rules read are kept, beside what dialects read.

    Warns:
        UserWarning: spans of a file that were not read, or texts that were repaired, and why; that no trace was read.

    Raises:
        TraceGradeError: a source that cannot be read, or an installed package adds what cannot be used.
    """
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.otlp.files.sources import read_sources
    from tracegrade.pipeline import whole_traces
    from tracegrade.plugins.installed import load_plugins as load
    from tracegrade.semconv import ALWAYS_READ

    load()
    report = SourceReport()
    attributes = ALWAYS_READ if rules is None else rules.attributes_read
    traces = whole_traces.read_traces(read_sources(sources, report), attributes)
    for line in [report.nothing_read] if report.nothing_read else report.warnings:
        warnings.warn(line, stacklevel=2)
    return traces


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tracegrade' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    globals()[name] = found = getattr(import_module(f"tracegrade.{module}"), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
