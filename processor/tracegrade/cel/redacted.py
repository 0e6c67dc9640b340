"""Redacted values in expressions: unknown.

What was masked or hashed is not there for an expression, and whatever reads it fails; ``||``, ``&&`` and ``?:`` that
need not read it hold all the same. Where an expression asks *whether* something is there, how many there are, or for an
object as a whole, that would be a wrong answer: `asked_in_vain` says so before.

A list in which a value itself was redacted is gone as a whole, since the places of the others would change.
"""

from typing import Any

from tracegrade.cel.reads import Values, reads
from tracegrade.cel.syntax import Node
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_unknown, is_unknown, may_hide

GONE: Any = object()


def known(value: JsonValue) -> Any:
    """`value` without what was redacted in it; `GONE` where it was redacted itself."""
    if isinstance(value, dict):
        members = ((key, known(member)) for key, member in value.items() if not is_unknown(key))
        return {key: member for key, member in members if member is not GONE}
    if isinstance(value, list):
        items = [known(item) for item in value]
        return GONE if any(item is GONE for item in items) else items
    return GONE if is_unknown(value) else value


def asked_in_vain(tree: Node, variables: Values) -> str | None:
    """The path of something that an expression asks for as if all of it were known; None where there is none."""
    for path, value, how, name in reads(tree, variables, wide=True):
        if how == "asked":
            is_there = isinstance(value, dict) and name in value
            is_open = known(value[name]) is GONE if is_there else may_hide(value, name)  # type: ignore[index, call-overload]
        elif how == "value":
            is_open = isinstance(value, dict | list) and holds_unknown(value)
        else:  # of a list the items are still as many
            is_open = isinstance(value, dict) and len(known(value)) < len(value)
        if is_open:
            return path
    return None


def redacted_read(tree: Node, variables: Values) -> str | None:
    """The first path that an expression reads at which something was redacted; None where there is none."""
    return next((path for path, value, _, _ in reads(tree, variables, wide=True) if holds_unknown(value)), None)
