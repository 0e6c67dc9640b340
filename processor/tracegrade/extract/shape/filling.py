"""What a dialect did not find of an execution, by shape: never a call, and never a name."""

from dataclasses import replace

from tracegrade.extract.decode.unwrap import unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.messages import content_of
from tracegrade.extract.shape.unclaimed_span import UnclaimedSpan, error_of
from tracegrade.extract.tool_spans import Execution


def fill(execution: Execution) -> None:
    """Give an execution what it lacks and its span shows."""
    lacks_arguments = execution.arguments.status == "absent"
    lacks_output = execution.output.status == "absent"
    if not lacks_arguments and not lacks_output and execution.call_id is not None:
        return
    span, dialect = execution.node.span, execution.node.dialect
    if any(event.name in dialect.events for event in span.events):  # it has taken of these what is to be taken
        span = replace(span, events=[event for event in span.events if event.name not in dialect.events])
    values = UnclaimedSpan(span).values
    if lacks_arguments and values.arguments is not None:
        execution.open_arguments(content_of(values.arguments, execution.name))
    if lacks_output and values.result is not None:
        output = unwrap_output(decode(content_of(values.result, execution.name)))
        execution.output = output.result
        execution.call_id = execution.call_id or output.call_id
    execution.call_id = execution.call_id or values.call_id
    if execution.error is None and values.error is not None:
        execution.error = execution.own_error = error_of(values.error)
