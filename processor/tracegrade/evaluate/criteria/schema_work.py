"""How often a JSON Schema's parts can be visited by one value: references may double the visits at every level.

``{"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}`` is short, and visits a value twenty levels deep a
million times. Schemas come from traces too, so the visits are counted before validating, from the schema and from how
many values stand at each depth; never too few, and for everyday schemas not far too many.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from operator import or_
from typing import TypeAlias
from urllib.parse import unquote

from tracegrade.model.json_value import JsonValue

# How often a visit goes on to each part that is referred to, by its pointer.
Visits: TypeAlias = Counter[str]

ROOT = "#"
_DEEPEST_SCHEMA = 200
_PARTS_PER_STEP = 8  # a part without reference is visited at most once by each visit of what holds it
# Arguments of one tool have few shapes: the steps of so many are known, each of at most so many levels.
_MAX_KNOWN = 256
_DEEPEST_KNOWN = 16
# More visits than any bound: counting on would only make larger numbers.
_TOO_MANY = 10**12

# Keywords whose schemas are for the value itself, and those for the values inside it.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_SAME_VALUE_BY_NAME = ("dependentSchemas", "dependencies")
_INSIDE = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)
# Of these only one is for any one value inside it.
_ONE_OF_INSIDE = ("properties", "prefixItems")
# References by a name are not followed here: what they lead to depends on more than the schema.
_BY_NAME = ("$dynamicRef", "$recursiveRef")
# A part of its own base: what a pointer inside it leads to is another thing. (id: as draft 4 calls it.)
_BASE = ("$id", "id")


class UncountableError(ValueError):
    """A schema whose number of visits has no bound, or is unknown."""


class SchemaWork:
    """The visits that one schema takes.

    Raises:
        UncountableError: a part refers to itself without going into the value, or to a part by other than a JSON
            Pointer (``#/$defs/x``).
    """

    __slots__ = ("_inside", "_known", "_order", "_same", "_steps")

    def __init__(self, schema: JsonValue) -> None:
        self._same: dict[str, Visits] = {}
        self._inside: dict[str, Visits] = {}
        self._steps: dict[str, int] = {}
        todo = [ROOT]
        for pointer in todo:
            same, inside, parts = _references(_at(schema, pointer), _DEEPEST_SCHEMA, outermost=pointer == ROOT)
            self._same[pointer], self._inside[pointer] = same, inside
            self._steps[pointer] = 1 + parts // _PARTS_PER_STEP
            todo += [other for other in {**same, **inside} if other not in self._steps and other not in todo]
        self._order = _outermost_first(self._same)
        self._known: dict[tuple[int, ...], int] = {}

    def steps(self, values_at_depth: Sequence[int]) -> int:
        """The steps that validating takes at most; `values_at_depth`: how many values stand at each depth."""
        shape = tuple(values_at_depth)
        if (known := self._known.get(shape)) is not None:
            return known
        steps = self._count(shape)
        if len(shape) <= _DEEPEST_KNOWN:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[shape] = steps
        return steps

    def _count(self, values_at_depth: Sequence[int]) -> int:
        total = reached = 0
        visits: Visits = Counter({ROOT: 1})
        for values in values_at_depth:
            for pointer in self._order:
                for other, times in self._same[pointer].items() if visits[pointer] else ():
                    visits[other] += times * visits[pointer]
            # What is referred to from deeper inside counts as one level down already: perhaps early, never too late.
            reached += sum(times * self._steps[pointer] for pointer, times in visits.items())
            total += values * reached
            if total > _TOO_MANY:
                break
            below: Visits = Counter()
            for pointer, times in visits.items():
                for other, more in self._inside[pointer].items():
                    below[other] += times * more
            visits = below
        return total


def _references(schema: JsonValue, deepest: int, *, outermost: bool = False) -> tuple[Visits, Visits, int]:
    """What one visit of `schema` refers to for the same value, and for one value inside it; and its parts."""
    if not isinstance(schema, dict):
        return Counter(), Counter(), 1
    if not deepest:
        raise UncountableError(f"nested more than {_DEEPEST_SCHEMA} deep")
    if named := next((word for word in _BY_NAME if word in schema), None):
        raise UncountableError(f"{named} cannot be followed; expected $ref with a JSON Pointer such as #/$defs/x")
    if not outermost and any(isinstance(schema.get(word), str) for word in _BASE):
        raise UncountableError("a part has an $id of its own; leave it out and refer to the part by its place")
    same: Visits = Counter()
    inside: Visits = Counter()
    parts = 1
    if isinstance(reference := schema.get("$ref"), str):
        same[reference] += 1

    def below(part: JsonValue) -> Visits:
        nonlocal parts
        its_same, its_inside, its_parts = _references(part, deepest - 1)
        parts += its_parts
        return its_same + its_inside

    for part in [*_parts(schema, _SAME_VALUE), *_members(schema, _SAME_VALUE_BY_NAME)]:
        its_same, its_inside, its_parts = _references(part, deepest - 1)
        same += its_same
        inside += its_inside
        parts += its_parts
    for part in [*_parts(schema, _INSIDE), *_members(schema, ("patternProperties",))]:
        inside += below(part)
    for word in _ONE_OF_INSIDE:
        inside += _most(map(below, _members(schema, (word,))))
    return same, inside, parts


def _parts(schema: dict[str, JsonValue], words: Iterable[str]) -> Iterator[JsonValue]:
    for word in words:
        if word in schema:
            value = schema[word]
            yield from value if isinstance(value, list) else (value,)


def _members(schema: dict[str, JsonValue], words: Iterable[str]) -> Iterator[JsonValue]:
    for word in words:
        value = schema.get(word)
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _most(visits: Iterable[Visits]) -> Visits:
    return reduce(or_, visits, Counter())


def _at(schema: JsonValue, pointer: str) -> JsonValue:
    """The part that a JSON Pointer within the schema leads to; nothing where it leads nowhere."""
    if pointer != ROOT and not pointer.startswith("#/"):
        raise UncountableError(f"{pointer[:80]!r} cannot be followed; expected a JSON Pointer such as #/$defs/x")
    part = schema
    for key in pointer.split("/")[1:]:
        name = _unquoted(key)
        if isinstance(part, dict):
            part = part.get(name)
        elif isinstance(part, list) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part


def _unquoted(key: str) -> str:
    return unquote(key).replace("~1", "/").replace("~0", "~")


def _outermost_first(refers: dict[str, Visits]) -> list[str]:
    """The parts, each before those that it refers to for the same value."""
    try:
        return [*TopologicalSorter(refers).static_order()][::-1]
    except CycleError:
        raise UncountableError("a part refers to itself without going into the value") from None
