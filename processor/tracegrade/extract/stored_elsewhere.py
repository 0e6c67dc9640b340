"""Values that a sender stored elsewhere, recording a reference in their place: they say so by their status.

The conventions name the reference after the attribute that would hold the value, with `_ref` at its end. What messages
would say of a call is stored elsewhere when the messages of a model call of its run are.
"""

from collections.abc import Sequence

from tracegrade import semconv as s
from tracegrade.extract.nodes import Node
from tracegrade.extract.pairing import PairedCall
from tracegrade.model.tool_call import ToolCall

_MESSAGES = (s.INPUT_MESSAGES + s.REFERENCE, s.OUTPUT_MESSAGES + s.REFERENCE)


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
