"""The result of an expression if more calls were made than are known, whichever these are.

``calls.all(c, ...)`` that is false stays false, ``calls.exists(c, ...)`` that is true stays true, and so does what is
made of these with ``&&``, ``||`` and ``!``, and ``size(calls) > 2``. All else that reads calls may change.
"""

from collections.abc import Set

from tracegrade.cel.syntax import Call, Loop, Name, Node, Operation, Unary, every_node

_LISTS = frozenset({"calls", "tools", "handoffs"})
_BOTH: Set[bool] = frozenset({True, False})
# Which result stays when the left side grows, and when the right one does.
_SIZES = {">": (True, False), ">=": (True, False), "<": (False, True), "<=": (False, True)}


def reads_calls(tree: Node) -> bool:
    """Whether it reads what further calls are added to."""
    return any(isinstance(node, Name) and node.name in _LISTS for node in every_node(tree))


def staying(node: Node) -> Set[bool]:
    """The results that stay as they are."""
    if not reads_calls(node):
        return _BOTH
    match node:
        case Loop(_, "all", over, _, (body,)) if _only_grows(over):
            return staying(body) & {False}
        case Loop(_, "exists", over, _, (body,)) if _only_grows(over):
            return staying(body) & {True}
        case Unary(_, "!", operand):
            return {not result for result in staying(operand)}
        case Operation(_, operators, operands) if {*operators} <= {"&&", "||"}:
            return frozenset(result for result in _BOTH if all(result in staying(one) for one in operands))
        case Operation(_, ("in",), (value, listed)) if not reads_calls(value) and _only_grows(listed):
            return {True}
        case Operation(_, (sign,), (left, right)) if sign in _SIZES:
            if reads_calls(left) and reads_calls(right):
                return frozenset()
            return {_SIZES[sign][place] for place, side in enumerate((left, right)) if _is_size(side)}
        case _:
            return frozenset()


def _only_grows(node: Node) -> bool:
    """Whether it is a list to which items are added, and of which none goes."""
    match node:
        case Name(_, name):
            return name in _LISTS
        case Loop(_, "filter" | "map", over, _, bodies):
            return _only_grows(over) and not any(map(reads_calls, bodies))
        case _:
            return False


def _is_size(node: Node) -> bool:
    match node:
        case Call(_, "size", None, (listed,)):
            return _only_grows(listed)
        case Call(_, "size", listed, ()) if listed is not None:
            return _only_grows(listed)
        case _:
            return False
