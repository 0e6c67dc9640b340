"""Whether two alerts failed on the same traces: then one thing went wrong, whatever the rules are called."""

from collections.abc import Collection

from sqlalchemy import Connection

from tracegrade.rule.watched import UNJUDGED, watched_evaluation
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results

_LOOKED_AT = 500
_SAME = 0.5  # of the one that failed on fewer traces
_FEWEST = 2


class FailingTraces:
    """The newest failing traces of alerts, read when they are asked for."""

    def __init__(self, connection: Connection, counting_incomplete: Collection[str]) -> None:
        """Read on `connection`; `counting_incomplete` are the ids of rules that count incomplete traces."""
        self._connection = connection
        self._counting_incomplete = counting_incomplete
        self._found: dict[str, frozenset[str]] = {}

    def are_shared(self, one: StoredAlert, other: StoredAlert) -> bool:
        """Whether at least half of the traces that one of them failed on are failing traces of the other, too."""
        both = self._of(one), self._of(other)
        fewer = min(map(len, both))
        return fewer >= _FEWEST and len(both[0] & both[1]) >= _SAME * fewer

    def _of(self, alert: StoredAlert) -> frozenset[str]:
        if alert.key not in self._found:
            self._found[alert.key] = self._read(alert)
        return self._found[alert.key]

    def _read(self, alert: StoredAlert) -> frozenset[str]:
        since_ns = alert.starts_ns if alert.facts.since_ns is None else alert.facts.since_ns
        if since_ns >= alert.starts_ns:  # it is not known when it began
            since_ns = alert.starts_ns - int(alert.over_s * 1_000_000_000)
        result_filter = ResultFilter(
            tenant=alert.tenant,
            service=alert.service,
            rule=alert.rule_id,
            rule_hash=alert.rule_hash,
            evaluation=watched_evaluation(alert.of) or None,
            agent=alert.agent,
            outcome=alert.of if alert.of in UNJUDGED else "fail",
            since_ns=since_ns,
            complete=None if alert.rule_id in self._counting_incomplete else True,
        )
        return frozenset(
            result.trace_id
            for result in results(self._connection, result_filter, _LOOKED_AT)
            if alert.release is None or alert.release == (result.release or "")
        )
