"""The outcomes that a check looks at, read from the store: one query for all rules that share a window."""

from bisect import bisect_left
from collections.abc import Mapping

from sqlalchemy import Connection

from tracegrade.store.history import Bin, SeriesKey, history
from tracegrade.store.schema import MINUTE_NS

_Windows = Mapping[str, Mapping[SeriesKey, list[Bin]]]


class StoredHistory:
    """The store as it is at one moment: each window is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._read: dict[tuple[int, int, bool], _Windows] = {}

    def window(
        self, rule_id: str, since_ns: int, until_ns: int, count_incomplete: bool
    ) -> Mapping[SeriesKey, list[Bin]]:
        """As `tracegrade.alert.check.History` says."""
        key = (since_ns, until_ns, count_incomplete)
        if key not in self._read:
            self._read[key] = history(self._connection, since_ns, until_ns, count_incomplete=count_incomplete)
        return self._read[key].get(rule_id, {})


class ReadHistory:
    """A stretch of the store, read once by the minute, in which any window may be looked at."""

    def __init__(self, connection: Connection, since_ns: int, until_ns: int) -> None:
        self._by_completeness: dict[bool, _Windows] = {
            count_incomplete: history(connection, since_ns, until_ns, count_incomplete=count_incomplete, by_minute=True)
            for count_incomplete in (False, True)
        }

    def window(
        self, rule_id: str, since_ns: int, until_ns: int, count_incomplete: bool
    ) -> Mapping[SeriesKey, list[Bin]]:
        """As `tracegrade.alert.check.History` says."""
        first, last = since_ns // MINUTE_NS, (until_ns - 1) // MINUTE_NS
        found = {}
        for key, bins in self._by_completeness[count_incomplete].get(rule_id, {}).items():
            low = bisect_left(bins, first, key=lambda item: item.minute)
            high = bisect_left(bins, last + 1, key=lambda item: item.minute)
            if low < high:
                found[key] = bins[low:high]
        return found
