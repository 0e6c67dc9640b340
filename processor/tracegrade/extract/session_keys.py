"""Which attributes of a span may hold its session, decided by their keys alone."""

from tracegrade.extract.dialect_set import DialectSet

# Senders repeat few sets of keys; flattened messages make ever new ones.
_MAX_LEARNT_SETS = 1024
_MAX_LEARNT_KEYS = 64


class SessionKeys(dict[tuple[str, ...], tuple[str, ...] | None]):
    """Of the attribute keys of a span, those that may hold a session; None where a dialect may read it elsewhere."""

    def __init__(self, dialects: DialectSet) -> None:
        self._keys = frozenset(dialects.session_keys)
        self._elsewhere = dialects.session_marks

    def __missing__(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        elsewhere = self._elsewhere is None or not self._elsewhere.isdisjoint(names)
        found = None if elsewhere else tuple(key for key in names if key in self._keys)
        if len(names) <= _MAX_LEARNT_KEYS:
            if len(self) >= _MAX_LEARNT_SETS:
                self.clear()
            self[names] = found
        return found
