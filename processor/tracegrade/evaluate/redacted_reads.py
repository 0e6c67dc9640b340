"""What an expression reads that was redacted: then nobody knows whether it is true.

An expression has no third answer: a mask or a hash is a text to it, and what is missing is not there. So it is not
asked at all where it reads such a value, or may read a part of a call that was redacted.
"""

from collections.abc import Mapping

from tracegrade.cel.expression import CelExpression
from tracegrade.cel.reads import names_read, values_read
from tracegrade.cel.syntax import Constant, Item, Member, Node, every_node
from tracegrade.evaluate.evidence import CallPart, Evidence
from tracegrade.evaluate.gate import what_was_redacted
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_hash, holds_mask

_PARTS: tuple[CallPart, ...] = ("arguments", "output")


def redacted_read(expression: CelExpression, variables: Mapping[str, JsonValue], evidence: Evidence) -> str | None:
    """What of a subject's values cannot be known, in words; None where the expression reads none of these.

    Args:
        expression: what is asked.
        variables: all that it names.
        evidence: the subject's calls; nothing is looked at where nothing of the trace was redacted.
    """
    if not evidence.redacted:
        return None
    members = set(filter(None, map(_member, every_node(expression.tree))))
    if "calls" in names_read(expression.tree):
        parts = [part for part in _PARTS if part in members] or list(_PARTS if expression.reads_values else ())
        if "attempt" in members and "arguments" not in parts:  # equal arguments make a call another attempt
            parts.append("arguments")
        for position in range(len(evidence.calls)):
            if (why := what_was_redacted(evidence, position, parts)) is not None:
                return why
    for path, value in values_read(expression.tree, variables):
        if path != "calls" and (holds_hash(value) or holds_mask(value)):
            return f"{path} was redacted, and the expression reads it"
    return None


def _member(node: Node) -> str | None:
    match node:
        case Member(_, _, name) | Item(_, _, Constant(_, _, name)):
            return name
        case _:
            return None
