"""Values redacted by where they stand: whole attributes, and members of the JSON in them."""

import ast
import json
import re
import warnings
from collections.abc import Sequence

from tracegrade.extract.document import type_before
from tracegrade.model.json_value import JsonValue
from tracegrade.redact.places import Names, PlaceRule
from tracegrade.redact.requests.kinds import (
    MESSAGES,
    NO_KINDS,
    OUTPUTS,
    SESSION_MEMBERS,
    STRUCTURE_MEMBERS,
    Kinds,
    holds_messages,
    is_ambiguous,
    is_definition,
    is_dumped,
    is_tool_call,
    is_tool_result,
    kinds_of_word,
    may_be_definition,
)
from tracegrade.redact.settings import Action
from tracegrade.redact.stand_in import MASK, TenantKey, mask

_MAX_DEPTH = 64  # of containers; what is deeper is masked as a whole
_MAX_ENCODINGS = 8  # JSON in JSON in JSON ...
_MAX_LITERAL_CHARS = 100_000
_JSON_STARTS = ("{", "[", '"')
_LITERAL_STARTS = ("{", "[", "(", "'", '"')


_REPR = re.compile(r"[A-Za-z_][\w.]*\(\w+=")  # ChatMessage(role=...
# Kinds of which there may be some in any text, and the words beside outputs.
_BY_WORDS = frozenset({"arguments", "outputs"})
_BESIDE_OUTPUTS = frozenset({"tool", "TOOL", "tool_call_id", "ToolCallResult"})


class Dropped:
    """Stands for a value that is to go, with its key."""


DROPPED = Dropped()


class ByPlace:
    """One pass over one attribute's value.

    Attributes:
        done: what was done, as actions, each as often as it was; empty when the value stays as it is.
        kept: the ways to the values at which detectors are not to look.
    """

    def __init__(
        self,
        rules: Sequence[PlaceRule],
        key: TenantKey | None,
        id_key: TenantKey,
        *,
        is_allow_list: bool,
        is_id: bool,
    ) -> None:
        """`rules` are those that `Places.of_attribute` gave; `key` is None where nothing is hashed.

        With `is_id`, traces are put together by the attribute: in place of a mask it gets a hash by `id_key`, as
        equal masks would make all of them one.
        """
        self.done: list[Action] = []
        self.kept: set[Names] = set()
        self._rules = rules
        self._key = key
        self._id_key = id_key
        self._is_id = is_id
        self._is_allow_list = is_allow_list

    def value(
        self, value: JsonValue, kinds: Kinds, names: Names = (), depth: int = 0, encodings: int = 0
    ) -> "JsonValue | Dropped":
        """`value` as the rules leave it, `DROPPED` when nothing is left."""
        action = self._action(kinds, names)
        if action is not None:
            return self._acted(action, value, names)
        if isinstance(value, str):
            return self._redacted_text(value, kinds, names, depth, encodings)
        if not isinstance(value, dict | list):
            return self._unlisted(value, names)
        if depth >= _MAX_DEPTH:
            return self._acted("mask", value, names)
        if isinstance(value, list):
            items = [self.value(item, kinds, names, depth + 1, encodings) for item in value]
            return [MASK if isinstance(item, Dropped) else item for item in items]
        return self._object(value, kinds, names, depth, encodings)

    def _object(self, value: dict[str, JsonValue], kinds: Kinds, names: Names, depth: int, encodings: int) -> JsonValue:
        given = OUTPUTS if is_tool_result(value) else NO_KINDS
        is_call = is_tool_call(value)
        members = "kwargs" if is_dumped(value) else None
        result: dict[str, JsonValue] = {}
        dropped = 0
        for key, member in value.items():
            inner = kinds_of_member(key, member, kinds) if key != members else kinds | MESSAGES
            is_structure = key.lower() in STRUCTURE_MEMBERS
            if given and not is_structure:
                inner |= given
            if is_call and is_structure:
                inner = NO_KINDS
            elif is_call and key == "error":
                inner |= OUTPUTS  # of a call that the provider made itself, beside its output
            other = self.value(member, inner, (*names, key), depth + 1, encodings)
            if isinstance(other, Dropped):
                dropped += 1
            else:
                result[key] = other
        if dropped:
            result[MASK] = dropped  # so that nobody takes what is left for all that there was
        return result

    def _action(self, kinds: Kinds, names: Names) -> Action | None:
        for rule in self._rules:
            if (rule.kind is None or rule.kind == "events" or rule.kind in kinds) and rule.is_at(names):
                return rule.action
        return None

    def _unlisted(self, value: JsonValue, names: Names) -> JsonValue:
        """A scalar that no rule names."""
        if not self._is_allow_list or value is None or (names and names[-1].lower() in STRUCTURE_MEMBERS):
            return value
        self.done.append("mask")
        return mask()

    def _redacted_text(
        self, text: str, kinds: Kinds, names: Names, depth: int, encodings: int
    ) -> "JsonValue | Dropped":
        if self._rules_within(names) and encodings < _MAX_ENCODINGS:
            if type_ := type_before(text):
                other = self._redacted_text(text[len(type_) :], kinds, names, depth, encodings + 1)
                return type_ + other if isinstance(other, str) else other
            found = _decoded(text)
            if isinstance(found, dict | list):
                before = len(self.done)
                other = self.value(found, kinds, names, depth, encodings + 1)
                if len(self.done) == before:
                    return text
                return other if isinstance(other, Dropped) else json.dumps(other, ensure_ascii=False)
            if found is None and self._may_hold(text):
                return self._acted("mask", text, names)
        return self._unlisted(text, names)

    def _rules_within(self, names: Names) -> bool:
        return self._is_allow_list or any(rule.path or rule.kind for rule in self._rules)

    def _may_hold(self, text: str) -> bool:
        """Whether a text that looks like JSON and cannot be read has a name in it that a rule is for."""
        words = set(_words(text))
        return any(_may_be_for(rule, words) for rule in self._rules if rule.action not in ("keep", "detect"))

    def _acted(self, action: Action, value: JsonValue, names: Names) -> "JsonValue | Dropped":
        if action == "detect":
            return value
        if action == "keep":
            self.kept.add(names)
            return value
        self.done.append(action)
        if action == "drop":
            return DROPPED
        if action == "hash" and self._key is not None:
            return hashed(value, self._key)
        is_id = names[-1].lower() in SESSION_MEMBERS if names else self._is_id
        return self._id_key.hash_of(str(value)) if is_id and isinstance(value, str | int) else mask()


def _may_be_for(rule: PlaceRule, words: set[str]) -> bool:
    """Whether one of these words says that a rule may be for what is in a text."""
    if rule.path:
        return any(map(rule.path[-1].match, words))
    if rule.kind == "outputs" and words & _BESIDE_OUTPUTS:
        return True
    return rule.kind in _BY_WORDS and any(rule.kind in kinds_of_word(word, NO_KINDS) for word in words)


def kinds_of_member(key: str, member: JsonValue, around: Kinds) -> Kinds:
    """What a member, or an attribute, holds: by its name, unless that may mean messages, and it is messages."""
    if "definition" in around:
        return around
    kinds = kinds_of_word(key, around)
    if kinds != around and is_ambiguous(key):
        return kinds_of_value(member, kinds, around)
    return without_definition(key, member, kinds)


def without_definition(key: str, value: JsonValue, kinds: Kinds) -> Kinds:
    """`kinds` of what has that name, but of a tool's definition: there nothing is an argument."""
    if may_be_definition(key) and is_definition(_decoded(value) if isinstance(value, str) else value):
        return (kinds - {"arguments"}) | {"definition"}
    return kinds


def kinds_of_value(value: JsonValue, kinds: Kinds, around: Kinds) -> Kinds:
    """`kinds`, or those of messages in what holds `around` where `value` is messages."""
    found = _decoded(value[len(type_before(value)) :]) if isinstance(value, str) else value
    return around | MESSAGES if holds_messages(found) else kinds


def hashed(value: JsonValue, key: TenantKey) -> JsonValue:
    """`value` with a hash in place of each scalar; texts word by word, what is JSON in them as JSON; null stays."""
    if isinstance(value, dict):
        return {name: hashed(member, key) for name, member in value.items()}
    if isinstance(value, list):
        return [hashed(item, key) for item in value]
    if isinstance(value, str):
        found = _decoded(value)
        if isinstance(found, dict | list):
            return json.dumps(hashed(found, key), ensure_ascii=False)
        return key.hashed_text(value)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as equal numbers are
    return key.hash_of(json.dumps(value))


def _decoded(text: str) -> JsonValue:
    """The object or list that `text` is, in JSON or Python; `text` where it is none, None where it cannot be read."""
    stripped = text.strip().lstrip("\ufeff")
    if stripped.startswith(_JSON_STARTS):
        try:
            found: JsonValue = json.loads(stripped)
        except (ValueError, RecursionError):
            pass
        else:
            return _decoded(found) if isinstance(found, str) else found
    if not stripped.startswith(_LITERAL_STARTS):
        return None if _REPR.match(stripped) else text
    if len(stripped) <= _MAX_LITERAL_CHARS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = json.loads(json.dumps(ast.literal_eval(stripped)))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None
        return found if isinstance(found, dict | list) else text
    return None


def _words(text: str) -> list[str]:
    return "".join(character if character.isalnum() or character in "_-" else " " for character in text).split()
