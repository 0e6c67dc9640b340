"""Calls whose arguments or output were redacted before they came here, or by us at the door, say so by their status.

A hash is none of it: equal values have equal hashes. What was cut off stays so: nobody knows what else was there.

Whether a call failed is said by its span's status or, where instrumentations leave that unset, by its output, by an
attribute, or by an exception. Where that may be what went, nobody knows whether it failed.
"""

from collections.abc import Sequence

from tracegrade import semconv as s
from tracegrade.extract.pairing import PairedCall
from tracegrade.model.span import STATUS_ERROR, STATUS_OK
from tracegrade.model.stand_ins import holds_mask
from tracegrade.model.tool_call import ToolCall

_SAID = frozenset({"absent", "redacted", "truncated"})
_SAY_FAILED = ("error", "exception", "fail", "status")  # attributes with one of these in their keys


def say_redacted(calls: Sequence[ToolCall], paired_calls: Sequence[PairedCall]) -> None:
    """Set what calls say of themselves in a trace of which something was redacted; their values stay as they are.

    Args:
        calls: in order.
        paired_calls: what each of them was made of.
    """
    earlier: dict[tuple[str, str], bool] = {}  # what spans of failed calls say: whether they may have said more
    for call, paired in zip(calls, paired_calls, strict=True):
        if call.arguments_status not in _SAID and holds_mask(call.arguments):
            call.arguments_status = "redacted"
        if call.output_status not in _SAID and holds_mask(call.output):
            call.output_status = "redacted"
        if call.error is None:
            call.failure_hidden = _may_have_failed(call, paired)
        elif paired.execution is not None:
            call.failure_hidden = _may_be_carried(call, paired, earlier)


def _may_be_carried(call: ToolCall, paired: PairedCall, earlier: dict[tuple[str, str], bool]) -> bool:
    """Whether an error may be that of an earlier call: `drop_carried_errors` asks for its exception, and the output."""
    span = paired.node.span
    said, marks = (span.scope, span.status_message), _marks(paired)
    is_carried = said in earlier and span.status_code == STATUS_ERROR and not (call.error and call.error.type)
    is_open = is_carried and (bool(marks) if call.output_status == "absent" else earlier[said])
    earlier[said] = earlier.get(said, False) or _hides_error(marks)
    return is_open


def _may_have_failed(call: ToolCall, paired: PairedCall) -> bool:
    """Whether what says that a call failed may have been redacted."""
    execution = paired.execution
    if execution is not None and paired.node.span.status_code == STATUS_OK:
        return False
    if call.output_status == "redacted" and call.output is None:
        return True
    marks = _marks(paired)
    return (call.output_status == "absent" and bool(marks or execution is None)) or _hides_error(marks)


def _marks(paired: PairedCall) -> list[str]:
    """What the spans of a call say was redacted of them."""
    nodes = [paired.node] if paired.execution is None else [paired.node, *paired.execution.also]
    return [mark for node in nodes if isinstance(mark := node.span.attributes.get(s.REDACTED), str)]


def _hides_error(marks: Sequence[str]) -> bool:
    return any(word in mark.lower() for mark in marks for word in _SAY_FAILED)
