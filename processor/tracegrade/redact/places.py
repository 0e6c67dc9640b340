"""Which action is for which place: the list of places in the settings, for one tenant and service."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from tracegrade.redact.settings import Action, Kind, PlaceSettings, RedactionSettings

_KNOWN_KEYS = 10_000

Names = tuple[str, ...]
"""The names of the members on the way to a value; items of lists have none."""


class PlaceRule(NamedTuple):
    """What becomes of values of one place. ``path`` is matched at the end of the way to a value; empty: all of it."""

    kind: Kind | None
    key: re.Pattern[str] | None
    path: tuple[re.Pattern[str], ...]
    action: Action

    def is_at(self, names: Names) -> bool:
        """Whether the way to a value ends as ``path`` says."""
        if len(self.path) > len(names):
            return False
        return all(part.match(name) for part, name in zip(reversed(self.path), reversed(names), strict=False))


class Places:
    """The rules for one tenant and service, in order: the first that fits decides."""

    def __init__(self, rules: Sequence[PlaceRule], *, is_allow_list: bool) -> None:
        self.is_allow_list = is_allow_list
        self.is_empty = not rules and not is_allow_list
        self._rules = tuple(rules)
        self.of_attribute = lru_cache(maxsize=_KNOWN_KEYS)(self._of_attribute)

    def _of_attribute(self, key: str, is_event: bool) -> tuple[PlaceRule, ...]:
        """The rules that may have something to say of an attribute, or of what is in it."""
        return tuple(
            rule
            for rule in self._rules
            if rule.key is None or (rule.key.match(key) is not None and (is_event or rule.kind != "events"))
        )


class Policy:
    """All places of the settings."""

    def __init__(self, settings: RedactionSettings) -> None:
        self._places = tuple((place, _rule(place)) for place in settings.places)
        self._is_allow_list = settings.default == "allow_listed"
        self.of = lru_cache(maxsize=1024)(self._of)

    @property
    def is_empty(self) -> bool:
        """Whether nothing goes because of where it stands."""
        return not self._places and not self._is_allow_list

    def _of(self, tenant: str, service: str) -> Places:
        """The rules for what this service of this tenant sends."""
        rules = [
            rule
            for place, rule in self._places
            if _is_one_of(tenant, place.tenant) and _is_one_of(service, place.service)
        ]
        return Places(rules, is_allow_list=self._is_allow_list)


def _rule(place: PlaceSettings) -> PlaceRule:
    kind = place.kind
    if kind in (None, "events"):
        key = place.attribute if kind is None else place.events
        assert key is not None  # one is named, as the settings were checked
        return PlaceRule(kind, _glob(key), _path(place.path), place.action)
    return PlaceRule(kind, None, _path(getattr(place, kind)), place.action)


def _path(path: str | None) -> tuple[re.Pattern[str], ...]:
    return () if path in (None, "*", "**") else tuple(map(_glob, str(path).split(".")))


def _glob(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def _is_one_of(name: str, globs: Iterable[str] | None) -> bool:
    return globs is None or any(_glob(glob).match(name) for glob in globs)
