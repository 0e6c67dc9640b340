"""Which attributes of a span may hold its session, decided by their keys alone."""

from typing import NamedTuple

from tracegrade.extract.dialect_set import DialectSet

# Senders repeat few sets of keys; flattened messages make ever new ones.
_MAX_LEARNT_SETS = 1024
_MAX_LEARNT_KEYS = 64


class SessionPlaces(NamedTuple):
    """Attribute keys of one span: those whose value may be a session, and those in whose JSON object one may stand."""

    named: tuple[str, ...]
    metadata: tuple[str, ...]


NOWHERE = SessionPlaces((), ())


class SessionKeys(dict[tuple[str, ...], SessionPlaces | None]):
    """Where a span may hold a session, by all its attribute keys; None where a dialect may read it elsewhere."""

    def __init__(self, dialects: DialectSet) -> None:
        self._keys = frozenset(dialects.session_keys)
        self._metadata = dialects.metadata
        self._elsewhere = dialects.session_marks

    def __missing__(self, names: tuple[str, ...]) -> SessionPlaces | None:
        found = self._places(names)
        if len(names) <= _MAX_LEARNT_KEYS:
            if len(self) >= _MAX_LEARNT_SETS:
                self.clear()
            self[names] = found
        return found

    def _places(self, names: tuple[str, ...]) -> SessionPlaces | None:
        if self._elsewhere is None or not self._elsewhere.isdisjoint(names):
            return None
        named = tuple(key for key in names if key in self._keys)
        metadata = tuple(key for key in names if key in self._metadata)
        return SessionPlaces(named, metadata) if named or metadata else NOWHERE
