"""Stored results with everything that was read of their trace; of one that was not decoded, it is read here."""

from dataclasses import replace

from tracegrade.codec.results import unpack_result
from tracegrade.model.trace_result import TraceResult


def whole_result(packed: bytes, spans: bytes) -> TraceResult:
    """The result with this ``packed`` and these ``spans``, with its runs and calls, whether or not it was decoded.

    All who show or use the calls and runs of a stored trace read it by this.

    Raises:
        Unreadable: as `unpack_result`; or the spans of a trace that was not decoded.
    """
    result = unpack_result(packed, spans)
    not_decoded = result.trace.not_decoded
    if not_decoded is None or result.values_are_gone:
        return result
    # Only here: who shows what is stored mostly does without, and they take as long to import as showing it.
    from tracegrade.codec.kept_spans import trace_of
    from tracegrade.extract.extract import extract
    from tracegrade.extract.run_summaries import run_summaries
    from tracegrade.model.agent_run import first_words
    from tracegrade.rule.tool_aliases import ToolAliases

    extraction = extract(trace_of(result), ToolAliases(not_decoded.tool_aliases) if not_decoded.tool_aliases else None)
    runs = run_summaries(extraction)
    return replace(
        result,
        trace=replace(result.trace, runs=runs, call_count=len(extraction.calls), prompt=first_words(extraction.runs)),
        tool_calls=extraction.calls,
    )
