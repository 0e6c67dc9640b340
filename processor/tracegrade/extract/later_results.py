"""Results of calls in another trace of the session: a loop without a span around it makes each model call a trace."""

from collections.abc import Iterator, Sequence

from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.extract import claim
from tracegrade.extract.histories import beyond
from tracegrade.extract.joining import join
from tracegrade.extract.pairing import message_error
from tracegrade.extract.reading import Dialect, ShownResult
from tracegrade.extract.registry import read_safely
from tracegrade.extract.shape.messages import MODEL_BY_SHAPE
from tracegrade.extract.shape.unclaimed_span import is_model_by_shape
from tracegrade.model.session import SessionPart, ToolResult
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace


def results_for_others(trace: Trace, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
    """The tool results that the model calls of a trace were given, by call id, each as it was given first.

    Those of `calls` that have a result are left out: they need no other, and no other call of their id can take one.

    Args:
        trace: the trace.
        calls: its calls that belong to the session for which this is asked.
    """
    answered = {call.call_id for call in calls if not _lacks_result(call)}
    return read_safely(lambda dialects: _results(trace, answered, dialects))


def _results(trace: Trace, answered: set[str | None], dialects: DialectSet) -> dict[str, ToolResult]:
    found: dict[str, ToolResult] = {}
    for span, dialect, result in _given_results(trace, dialects):
        call_id = result.call_id
        if call_id is not None and call_id not in answered and call_id not in found:
            output = dialect.read_output(span, result.output)
            found[call_id] = ToolResult(output.result.value, output.result.status, message_error(output, result))
    return found


def fill_in(parts: Sequence[SessionPart]) -> None:
    """Give calls without a result the one that a model call in another part was given for their call id.

    Ids that several calls of the session have say nothing here. Changes the calls.

    Args:
        parts: those of one session, in order.
    """
    by_id: dict[str, ToolCall | None] = {}
    for part in parts:
        for call in part.calls:
            if call.call_id is not None:
                by_id[call.call_id] = call if call.call_id not in by_id else None
    lacking = {call_id: call for call_id, call in by_id.items() if call is not None and _lacks_result(call)}
    for part in parts if lacking else ():
        for call_id in part.results.keys() & lacking.keys():
            call = lacking.pop(call_id)
            call.output, call.output_status, call.error = part.results[call_id]


def _lacks_result(call: ToolCall) -> bool:
    return call.output_status in ("absent", "elsewhere") and call.error is None


def _given_results(trace: Trace, dialects: DialectSet) -> Iterator[tuple[Span, Dialect, ShownResult]]:
    """The results that the model calls of a trace were given, each where it is new."""
    before: Span | None = None
    for span in join(trace.spans, trace.log_records, dialects.events) if trace.log_records else trace.spans:
        claimed = claim(span, dialects)
        if claimed is not None and claimed[1] == "chat":
            dialect = claimed[0]
        elif span.is_whole and (claimed is None or claimed[1] == "unknown") and is_model_by_shape(span):
            dialect = MODEL_BY_SHAPE
        else:
            continue
        since = span if before is None else beyond(span, before, dialect.prefixes).span
        before = span
        for message in dialect.inputs(since):
            for result in message.results:
                yield span, dialect, result
