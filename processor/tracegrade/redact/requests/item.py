"""One span, log record, metric, scope or resource, redacted in place."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tracegrade.extract.registry import in_force
from tracegrade.extract.shape.keys import may_name_argument, names_below_slot
from tracegrade.model.json_value import JsonValue
from tracegrade.redact.json_text import Leaf
from tracegrade.redact.places import Names, Places
from tracegrade.redact.requests.by_place import ByPlace, Dropped, kinds_of_value, without_definition
from tracegrade.redact.requests.collected import Collected, FindInKey, Found, Scanner
from tracegrade.redact.requests.kinds import (
    ARGUMENTS,
    MARKS_OF_MESSAGE,
    MESSAGES,
    NO_KINDS,
    STRUCTURE_MEMBERS,
    is_of_tool,
    is_structure,
    kinds_in_tool,
    kinds_of_key,
)
from tracegrade.redact.requests.values import json_of, set_json
from tracegrade.redact.requests.walk import DROPPED, Place, Walk, Where
from tracegrade.redact.settings import FoundAction
from tracegrade.redact.stand_in import MASK, TenantKey, mask

BY_PLACE = "place"
"""Counted in place of a detector's name, where a value went because of where it stood."""
UNKNOWN_FIELDS = "unknown_fields"
"""The same of bytes that no field of this version of OTLP is for: nobody can say what they hold."""

_OF_CALLS = frozenset({"arguments", "outputs"})
_BODY = "body"
_KEY = "(key)"  # in place of a key that must not be said itself
_NO_ARGUMENTS = json.dumps({MASK: 1})


class Redaction(NamedTuple):
    """What was replaced: in which part of a request, under which key or field, by which detector, and how."""

    where: Where
    place: str
    detector: str
    action: str

    @property
    def place_text(self) -> str:
        """Where, for people: the key of an attribute of a span, else with the part of the request before it."""
        if self.where == "attributes" or not self.place or self.place == self.where:
            return self.place or self.where
        return f"{self.where}.{self.place}"


@dataclass(frozen=True, slots=True)
class SenderPolicy:
    """The redaction of items of one sender.

    ``actions`` are those of detectors by name, ``action`` is that of all others. ``key`` is the tenant's; ids get their
    stand-ins by ``id_key`` where masks would make all of them the same. ``on_found`` is called with what was found.
    """

    scanner: Scanner
    find_in_key: FindInKey
    places: Places
    action: FoundAction
    actions: Mapping[str, FoundAction]
    key: TenantKey | None
    id_key: TenantKey
    on_found: Callable[[Redaction, str], None] | None = None


class Item:
    """The redaction of one item: make one for each."""

    def __init__(self, policy: SenderPolicy) -> None:
        self.counts: Counter[Redaction] = Counter()
        self._policy = policy
        self._of_tool = False
        self._names_arguments = False  # keys of one word may be the names of arguments, as shape reads them
        self._named: frozenset[str] = frozenset()  # structure of this item, by what else it has
        self._kept: dict[tuple[Where, str], set[Names]] = {}

    def redact(self, message: Any, walk: Callable[[Walk, Any], None]) -> bool:
        """Redact `message`, which `walk` goes through. Returns whether anything was changed."""
        attributes = getattr(message, "attributes", ())
        self._named = in_force().declared.structure_beside(one.key for one in attributes)
        if not self._policy.places.is_empty:
            self._of_tool = is_of_tool((one.key, one.value.string_value) for one in attributes)
            self._names_arguments = self._of_tool and not any(
                "arguments" in kinds_of_key(one.key) for one in attributes
            )
            walk(_PlacesWalk(self), message)
        collected = Collected(self.keeps if self._kept else None)
        walk(collected, message)
        if found := collected.find(self._policy.scanner, self._policy.find_in_key):
            replacing = _Replacing(self, collected, found)
            walk(Walk(replacing.visit), message)
            replacing.check()
        return bool(self.counts)

    def keeps(self, place: Place) -> bool:
        """Whether the settings keep what stands there as it is."""
        if not self._kept or (ways := self._kept.get(place[:2])) is None:
            return False
        names = tuple(part for part in place[2] if isinstance(part, str))
        return any(names[: len(way)] == way for way in ways)

    def _is_structure(self, key: str) -> bool:
        return key in self._named or is_structure(key)

    @property
    def names_body(self) -> bool:
        """Whether a rule is for bodies as a whole."""
        return any(rule.kind == "events" for rule in self._policy.places.of_attribute(_BODY, True))

    def by_place(self, value: JsonValue, where: Where, key: str, *, of_message: bool = False) -> "JsonValue | Dropped":
        """The value of an attribute, or a body, as the list of places leaves it.

        With `of_message`, it is a member of a message: roles, ids and names are structure there, as in JSON.
        """
        policy = self._policy
        rules = policy.places.of_attribute(key, where in ("events", "body"))
        is_structure = self._is_structure(key) or (of_message and key.lower() in STRUCTURE_MEMBERS)
        is_listed = policy.places.is_allow_list and not is_structure
        if not rules and not is_listed:
            return value
        kinds = MESSAGES if key == _BODY and where == "body" else kinds_of_key(key)
        if "messages" in kinds:
            kinds = kinds | kinds_in_tool(key) if self._of_tool else kinds_of_value(value, kinds, NO_KINDS)
        kinds = without_definition(key, value, kinds)
        is_argument = where == "attributes" and self._names_arguments and not is_structure and may_name_argument(key)
        if is_argument:
            kinds = kinds | ARGUMENTS
        one = ByPlace(rules, policy.key, policy.id_key, is_allow_list=is_listed, is_id=is_structure)
        # A member that lies flattened below arguments or an output has its name in the key.
        names = (key,) if is_argument else names_below_slot(key) if kinds & _OF_CALLS else ()
        other = one.value(value, kinds, names)
        if isinstance(other, Dropped) and names:
            other = MASK
        if one.done:
            said = _KEY if policy.find_in_key(key) else key
            for action in one.done:
                self.counts[Redaction(where, said, BY_PLACE, action)] += 1
        if one.kept:
            self._kept[where, key] = one.kept
        if isinstance(other, Dropped) and "arguments" in kinds:
            # A call that shows none would be judged as one that was given none.
            return _NO_ARGUMENTS if isinstance(value, str) else {MASK: 1}
        return other

    def replaced(self, text: str, parts: Sequence[Found], name: str, leaf: Leaf, place: Place) -> str:
        """`text` with stand-ins for `parts`."""
        policy = self._policy
        where, key, _ = place
        if leaf == "key":
            key = _KEY
        for part in sorted(parts, key=lambda part: -part.start):
            action = policy.actions.get(part.detector, policy.action)
            other = self._stand_in(text[part.start : part.end], action, part.detector, name, leaf, place)
            found = Redaction(where, key, part.detector, action)
            self.counts[found] += 1
            if policy.on_found is not None:
                policy.on_found(found, text[part.start : part.end])
            if other is DROPPED:
                return DROPPED
            text = text[: part.start] + other + text[part.end :]
        return text

    def _stand_in(self, value: str, action: FoundAction, detector: str, name: str, leaf: Leaf, place: Place) -> str:
        key = self._policy.key
        if action == "hash" and key is not None:
            return key.hash_of(value)
        inner = place[2]
        member = next((part for part in reversed(inner) if isinstance(part, str)), "")
        if (not inner and self._is_structure(place[1])) or member.lower() in STRUCTURE_MEMBERS:
            return self._policy.id_key.hash_of(value)
        if action == "drop" and leaf != "key":
            return DROPPED
        return mask(detector) if action == "mask" else MASK


class _PlacesWalk(Walk):
    """Goes to attributes and bodies alone."""

    def __init__(self, item: Item) -> None:
        super().__init__(lambda text, name, leaf, place: text)
        self._item = item

    def attributes(self, attributes: Any, where: Where) -> None:
        gone = []
        is_message = where in ("events", "body") and any(one.key in MARKS_OF_MESSAGE for one in attributes)
        for number, attribute in enumerate(attributes):
            if self._is_gone(attribute.value, where, attribute.key, of_message=is_message):
                gone.append(number)
        for number in reversed(gone):
            del attributes[number]

    def any_value(self, value: Any, place: Place, name: str, depth: int = 0) -> bool:
        if value.WhichOneof("value") is None:
            return False
        if value.HasField("kvlist_value") and not self._item.names_body:
            self.attributes(value.kvlist_value.values, "body")  # what others write as attributes of the event
        elif self._is_gone(value, "body", _BODY):
            value.Clear()
        return False

    def _is_gone(self, value: Any, where: Where, key: str, *, of_message: bool = False) -> bool:
        before = json_of(value)
        after = self._item.by_place(before, where, key, of_message=of_message)
        if isinstance(after, Dropped):
            return True
        if after is not before and after != before:
            set_json(value, after)
        return False


class _Replacing:
    """Gives what is to stand in place of what was found, in a second walk of the same order."""

    def __init__(self, item: Item, collected: Collected, found: dict[tuple[Leaf, int], list[Found]]) -> None:
        self._item = item
        self._collected = collected
        self._found = found
        self._numbers: Counter[Leaf] = Counter()

    def visit(self, text: str, name: str, leaf: Leaf, place: Place) -> str:
        if self._item.keeps(place):
            return text
        number = self._numbers[leaf]
        self._numbers[leaf] += 1
        parts = self._found.pop((leaf, number), None)
        if parts is None:
            return text
        if self._collected.expects(leaf, number) != text:
            raise RuntimeError("the two walks met different texts")
        return self._item.replaced(text, parts, name, leaf, place)

    def check(self) -> None:
        """Make sure that everything found was replaced.

        Raises:
            RuntimeError: something was not met again, so that it would stay.
        """
        if self._found:
            raise RuntimeError("the second walk did not meet all texts of the first")
