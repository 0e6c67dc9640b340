"""The values that an expression reads of a subject: the paths that it names, with their values."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.cel.syntax import Call, Constant, Item, Loop, Member, Name, Node, Operation, every_node, parts
from tracegrade.model.json_value import JsonValue

Values = Mapping[str, JsonValue]
_Found: TypeAlias = list[tuple[str, JsonValue]]  # paths, and their values


class Read(NamedTuple):
    """A path that an expression names, with its value.

    ``how``: for the ``value``; for its ``size``; ``over``, for the items of a list or the keys of an object; ``asked``,
    whether it has a member of that ``name``.
    """

    path: str
    value: JsonValue
    how: Literal["value", "size", "over", "asked"] = "value"
    name: str = ""


def values_read(tree: Node, variables: Values) -> Iterator[tuple[str, JsonValue]]:
    """The paths that an expression names, in its order, each with its value: ``calls[1].arguments.amount``.

    A path over a loop stands there once for each item. What is not there is left out.
    """
    for path, value, how, name in reads(tree, variables):
        if how == "asked":
            if isinstance(value, dict) and name in value:
                yield f"{path}{_written(name)}", value[name]
        elif how != "over":  # of which the body says what it reads
            yield path, value


def reads(tree: Node, variables: Values, *, wide: bool = False) -> Iterator[Read]:
    """All that an expression reads, as far as paths lead; `wide`: of what an expression finds, all that it may be."""
    yield from _Reader(variables, wide).read(tree, {})


_How: TypeAlias = Literal["value", "size", "over"]


class _Reader:
    def __init__(self, variables: Values, wide: bool) -> None:
        self._variables = variables
        self._wide = wide

    def read(self, node: Node, bound: Mapping[str, _Found], how: _How = "value") -> Iterator[Read]:
        match node:
            case Member(_, of, name, True) | Operation(_, ("in",), (Constant(_, "text", name), of)) if (
                found := self._path(of, bound)
            ) is not None:
                yield from (Read(path, value, "asked", name) for path, value in found)
                yield from self._inside(of, bound)
            case Name() | Member() | Item() if (found := self._path(node, bound)) is not None:
                yield from (Read(path, value, how) for path, value in found)
                yield from self._inside(node, bound)
            case Loop(_, _, over, variable, bodies):
                items = self._items(over, bound)
                yield from self.read(over, bound, "over")
                for body in bodies:
                    yield from self.read(body, {**bound, variable: items})
            case Call(_, "size"):
                for part in parts(node):
                    yield from self.read(part, bound, "size")
            case _:
                for part in parts(node):
                    yield from self.read(part, bound)

    def _inside(self, node: Node, bound: Mapping[str, _Found]) -> Iterator[Read]:
        """What is read on the way to what a chain of members stands for."""
        while isinstance(node, Member | Item):
            if isinstance(node, Item):
                yield from self.read(node.index, bound)
            node = node.of
        if isinstance(node, Loop):
            yield from self.read(node, bound)

    def _items(self, node: Node, bound: Mapping[str, _Found]) -> _Found:
        """The items over which a loop goes, by their paths; before a filter of them. [] where they have no path."""
        while isinstance(node, Loop) and node.macro == "filter":
            node = node.over
        found = self._path(node, bound) if isinstance(node, Name | Member | Item) else None
        items: _Found = []
        for path, value in found or ():
            if isinstance(value, list):
                items += _items_of(path, value)
            elif isinstance(value, dict):
                items += [(f"{path}.{name}", name) for name in value]
        return items

    def _path(self, node: Node, bound: Mapping[str, _Found]) -> _Found | None:
        """All that a chain of members stands for, by path; None where it is no such chain."""
        key: str | None
        match node:
            case Name(_, name):
                if name in bound:
                    return bound[name]
                return [(name, self._variables[name])] if name in self._variables else []
            case Member(_, of, name) | Item(_, of, Constant(_, "text", name)):
                written, key = _written(name), name
            case Item(_, of, Constant(_, "int") as index) if not (self._wide and isinstance(of, Loop)):
                written, key = f"[{index.text}]", index.text
            case Item(_, of, _) if self._wide:
                written, key = "", None
            case Loop(_, "filter", over, _, _) if self._wide:
                return self._path(over, bound)
            case _:
                return None
        if (outer := self._path(of, bound)) is None:
            return None
        if key is None:
            return [each for path, value in outer for each in _items_of(path, value)]
        return [(path + written, inner) for path, value in outer for inner in _member(value, key)]


def _written(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def _items_of(path: str, value: JsonValue) -> _Found:
    """The items of a list, or the members of an object, each with its path."""
    if isinstance(value, dict):
        return [(path + _written(name), member) for name, member in value.items()]
    return [(f"{path}[{place}]", item) for place, item in enumerate(value)] if isinstance(value, list) else []


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
