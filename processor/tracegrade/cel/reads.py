"""What an expression reads of a subject: the paths that it names, with their values."""

from collections.abc import Iterator, Mapping

from tracegrade.cel.syntax import Constant, Item, Loop, Member, Name, Node, every_node, parts
from tracegrade.model.json_value import JsonValue

Values = Mapping[str, JsonValue]
_Found = Iterator[tuple[str, JsonValue]]  # a path, and its value


def values_read(tree: Node, variables: Values) -> _Found:
    """The paths that an expression names, in its order, each with its value: ``calls[1].arguments.amount``.

    A path over a loop stands there once for each item. What is not there is left out.
    """
    yield from _read(tree, variables, {})


def _read(node: Node, variables: Values, bound: dict[str, list[tuple[str, JsonValue]]]) -> _Found:
    match node:
        case Name() | Member() | Item() if (found := _path(node, variables, bound)) is not None:
            yield from found
        case Loop(_, _, over, variable, bodies):
            items = _items(over, variables, bound)
            yield from _read_over(over, variables, bound)
            for body in bodies:
                yield from _read(body, variables, {**bound, variable: items})
        case _:
            for part in parts(node):
                yield from _read(part, variables, bound)


def _read_over(over: Node, variables: Values, bound: dict[str, list[tuple[str, JsonValue]]]) -> _Found:
    """What finding the list of a loop reads: not the list itself, of which the body says what it reads."""
    if isinstance(over, Loop):
        yield from _read(over, variables, bound)


def _items(node: Node, variables: Values, bound: dict[str, list[tuple[str, JsonValue]]]) -> list[tuple[str, JsonValue]]:
    """The items over which a loop goes, by their paths; before a filter of them. [] where they have no path."""
    while isinstance(node, Loop) and node.macro == "filter":
        node = node.over
    found = _path(node, variables, bound) if isinstance(node, Name | Member | Item) else None
    items: list[tuple[str, JsonValue]] = []
    for path, value in found or ():
        if isinstance(value, list):
            items += [(f"{path}[{place}]", item) for place, item in enumerate(value)]
        elif isinstance(value, dict):
            items += [(f"{path}.{name}", name) for name in value]
    return items


def _path(
    node: Node, variables: Values, bound: dict[str, list[tuple[str, JsonValue]]]
) -> list[tuple[str, JsonValue]] | None:
    """All that a chain of members stands for, by path; None where it is no such chain."""
    match node:
        case Name(_, name):
            if name in bound:
                return bound[name]
            return [(name, variables[name])] if name in variables else []
        case Member(_, of, name) | Item(_, of, Constant(_, "text", name)):
            written, key = f".{name}" if name.isidentifier() else f"[{name!r}]", name
        case Item(_, of, Constant(_, "int") as index):
            written, key = f"[{index.text}]", index.text
        case _:
            return None
    if (outer := _path(of, variables, bound)) is None:
        return None
    return [(path + written, inner) for path, value in outer for inner in _member(value, key)]


def _member(value: JsonValue, key: str) -> list[JsonValue]:
    """The member of that name or place; none where it is not there."""
    if isinstance(value, dict):
        return [value[key]] if key in value else []
    if isinstance(value, list) and key.isdigit():
        return value[int(key) : int(key) + 1]
    return []


def names_read(tree: Node) -> frozenset[str]:
    """The variables that an expression names, loop variables among them."""
    return frozenset(node.name for node in every_node(tree) if isinstance(node, Name))
