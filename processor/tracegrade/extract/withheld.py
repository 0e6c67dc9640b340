"""Calls whose values were redacted, before they came here or by us, or stored elsewhere say so by their status.

A hash is no redaction: equal values have equal hashes. What was cut off stays so: nobody knows what else was there.

Whether a call failed is said by its span's status or, where instrumentations leave that unset, by its output, by an
attribute, or by an exception. Where that may be what went, nobody knows whether it failed.

Of values that a sender stored elsewhere, the conventions name the reference after the attribute that would hold the
value, with `_ref` at its end. What messages would say of a call is stored elsewhere when the messages of a model call
of its run are.
"""

from collections.abc import Sequence

from tracegrade import semconv as s
from tracegrade.extract.nodes import Node
from tracegrade.extract.pairing import PairedCall
from tracegrade.model.span import STATUS_ERROR, STATUS_OK
from tracegrade.model.stand_ins import holds_mask
from tracegrade.model.tool_call import ToolCall

_SAID = frozenset({"absent", "redacted", "truncated"})
_MESSAGES = (s.INPUT_MESSAGES + s.REFERENCE, s.OUTPUT_MESSAGES + s.REFERENCE)
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


def say_stored_elsewhere(calls: Sequence[ToolCall], paired_calls: Sequence[PairedCall], chats: Sequence[Node]) -> None:
    """Set the status of values that calls lack and that their sender stored elsewhere.

    Args:
        calls: in order.
        paired_calls: what each of them was made of.
        chats: all model calls of the trace.
    """
    runs = {chat.run for chat in chats if _has(chat, _MESSAGES)}
    for call, paired in zip(calls, paired_calls, strict=True):
        if call.arguments_status != "absent" and call.output_status != "absent":
            continue
        execution = paired.execution
        spans = [] if execution is None else [paired.node, *execution.also]
        by_messages = paired.node.run in runs
        if call.arguments_status == "absent" and (by_messages or _any_has(spans, s.TOOL_CALL_ARGUMENTS)):
            call.arguments_status = "elsewhere"
        if (
            call.output_status == "absent"
            and call.error is None
            and (by_messages or _any_has(spans, s.TOOL_CALL_RESULT))
        ):
            call.output_status = "elsewhere"


def _any_has(nodes: Sequence[Node], key: str) -> bool:
    return any(_has(node, (key + s.REFERENCE,)) for node in nodes)


def _has(node: Node, keys: tuple[str, ...]) -> bool:
    return any(key in node.span.attributes for key in keys)
