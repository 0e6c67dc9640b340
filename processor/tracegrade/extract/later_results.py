"""Results that stand in another trace of a session: a loop without a span around it shows each model call by itself."""

from collections.abc import Iterator, Sequence

from tracegrade.extract.histories import beyond
from tracegrade.extract.joining import join
from tracegrade.extract.pairing import message_error
from tracegrade.extract.reading import Dialect, ShownResult
from tracegrade.extract.registry import claim
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall


def fill_in(parts: Sequence[Extraction]) -> None:
    """Give calls without a result the one that a model call in another part was told for their call id.

    Ids that several calls of the session have say nothing here. Changes the calls.

    Args:
        parts: those of one session, in order.
    """
    waiting: dict[str, ToolCall | None] = {}
    for part in parts:
        for call in part.calls:
            if call.call_id is not None:
                waiting[call.call_id] = call if call.call_id not in waiting else None
    wanted = {
        call_id: call
        for call_id, call in waiting.items()
        if call is not None and call.output_status == "absent" and call.error is None
    }
    if not wanted:
        return
    for part in parts:
        for span, dialect, result in _told(part):
            if result.call_id is None or result.call_id not in wanted:
                continue
            found = wanted.pop(result.call_id)
            output = dialect.read_output(span, result.output)
            found.output, found.output_status = output.result.value, output.result.status
            found.error = message_error(output, result)
        if not wanted:
            return


def _told(part: Extraction) -> Iterator[tuple[Span, Dialect, ShownResult]]:
    """The results that the model calls of a trace were told, each where it is new."""
    trace = part.trace
    before: Span | None = None
    for span in join(trace.spans, trace.log_records) if trace.log_records else trace.spans:
        claimed = claim(span)
        if claimed is None or claimed[1] != "chat":
            continue
        dialect = claimed[0]
        since = span if before is None else beyond(span, before, dialect.prefixes).span
        before = span
        for message in dialect.inputs(since):
            for result in message.results:
                yield span, dialect, result
