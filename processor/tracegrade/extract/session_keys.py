"""Which attributes of a span may hold its session, decided by their keys alone."""

from typing import NamedTuple

from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.shape.words import names_session


class SessionPlaces(NamedTuple):
    """Attribute keys of one span: those whose value may be a session, and those in whose JSON object one may stand."""

    named: tuple[str, ...]
    metadata: tuple[str, ...]


NOWHERE = SessionPlaces((), ())


class SessionKeys(ByKeys[SessionPlaces | None]):
    """Where a span may hold a session, by all its attribute keys; None where it may be read elsewhere."""

    def __init__(self, dialects: DialectSet, *, by_shape: bool) -> None:
        super().__init__(self._places)
        self._keys = frozenset(dialects.session_keys)
        self._metadata = dialects.metadata
        self._elsewhere = dialects.session_marks
        self._by_shape = by_shape

    def _places(self, names: tuple[str, ...]) -> SessionPlaces | None:
        if self._elsewhere is None or not self._elsewhere.isdisjoint(names):
            return None
        if self._by_shape and any(names_session(key) for key in names if key not in self._keys):
            return None  # whether it counts depends on what the span is
        named = tuple(key for key in names if key in self._keys)
        metadata = tuple(key for key in names if key in self._metadata)
        return SessionPlaces(named, metadata) if named or metadata else NOWHERE
