"""Our own metrics: what came in, what went out, what was lost and why; and what is wrong right now.

One `Telemetry` a process, filled in batches (never per span), read as a snapshot: plain JSON that the judge writes to
a file each second and the receive role shows on ``/metrics`` beside its own. ``METRICS`` is the whole list.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import time_ns
from typing import Any, Literal, NamedTuple

from tracegrade.telemetry.conditions import Conditions
from tracegrade.telemetry.series_bound import MAX_SERIES, MAX_TENANTS, OTHER, Names, SeriesBound

Labels = tuple[tuple[str, str], ...]


class Exemplar(NamedTuple):
    """One of what was counted: ids in hex, the value that it added, when it was counted in ns since 1970 UTC."""

    trace_id: str
    span_id: str
    value: float
    time_ns: int


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument: ``unit`` in UCUM, ``labels`` the attribute names it may carry (all of low cardinality)."""

    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def lines(self) -> int:
        """How many series in Prometheus one of its own is: with the time of its creation, a histogram with buckets."""
        return {"counter": 2, "gauge": 1, "histogram": len(self.buckets) + 4}[self.kind]


_RESULT_LABELS = ("tenant", "rule", "rule_hash", "evaluation", "agent", "service")
_SLO_LABELS = ("tenant", "rule", "of", "objective", "service", "agent", "window")
_SCORE_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)

METRICS: dict[str, Metric] = {
    # What agents sent. Requests that reached a handler = accepted + refused by reason.
    "tracegrade.receiver.requests": Metric(
        "counter", "{request}", "Export calls answered", ("signal", "transport", "outcome", "reason")
    ),
    "tracegrade.receiver.over_quota": Metric(
        "counter",
        "{request}",
        "Requests refused by a quota, by its tenant (`other`: one that the settings do not name) and service",
        ("tenant", "service", "quota"),
    ),
    "tracegrade.receiver.accepted_items": Metric(
        "counter", "{item}", "Spans, log records and data points journalled", ("signal", "transport")
    ),
    "tracegrade.receiver.rejected_spans": Metric(
        "counter", "{span}", "Spans (log records, metrics) rejected by partial success", ("signal", "reason")
    ),
    "tracegrade.receiver.repaired_texts": Metric(
        "counter",
        "{text}",
        "Texts that were not UTF-8 and were repaired by U+FFFD, by the service that sent them",
        ("signal", "service"),
    ),
    "tracegrade.receiver.loop_items": Metric(
        "counter", "{item}", "Items that this instance had sent and that came back to it", ("signal",)
    ),
    "tracegrade.redacted": Metric(
        "counter",
        "{value}",
        "Values redacted before they were journalled, by what found them and the part of a request they stood in",
        ("signal", "detector", "place", "action"),
    ),
    "tracegrade.receiver.closed_connections": Metric(
        "counter",
        "{connection}",
        "Connections that were closed: clients too slow to send or to read, or too many connections",
        ("transport", "reason"),
    ),
    # The journal.
    "tracegrade.journal.size": Metric("gauge", "By", "Bytes on disk", ("journal",)),
    "tracegrade.journal.end": Metric("gauge", "By", "Durable end: bytes ever written", ("journal",)),
    "tracegrade.journal.position": Metric("gauge", "By", "Position of a consumer", ("journal", "consumer")),
    "tracegrade.journal.commits": Metric("counter", "{commit}", "Group commits (one fdatasync each)", ("journal",)),
    "tracegrade.journal.failed_commits": Metric(
        "counter", "{commit}", "Group commits that failed on disk; their senders retry", ("journal", "reason")
    ),
    "tracegrade.journal.corrupt_bytes": Metric(
        "counter", "By", "Bytes that were cut off or set aside when the journal was recovered", ("journal", "reason")
    ),
    "tracegrade.kafka.produced_messages": Metric(
        "counter", "{message}", "Messages given to the Kafka client: one a trace of each request", ("topic",)
    ),
    "tracegrade.kafka.failed_messages": Metric(
        "counter", "{message}", "Messages that the brokers did not take; their senders retry", ("topic", "reason")
    ),
    # Forwarding, in requests: accepted = sent + queued + failed by reason + loop.
    "tracegrade.exporter.sent_requests": Metric(
        "counter", "{request}", "Requests that an exporter delivered", ("exporter", "signal")
    ),
    "tracegrade.exporter.failed_requests": Metric(
        "counter", "{request}", "Requests that an exporter gave up", ("exporter", "signal", "reason")
    ),
    "tracegrade.exporter.retries": Metric(
        "counter", "{retry}", "Attempts that failed and are repeated", ("exporter", "signal", "reason")
    ),
    "tracegrade.exporter.queued_requests": Metric(
        "gauge", "{request}", "Requests accepted and not yet sent", ("exporter",)
    ),
    "tracegrade.exporter.rejected_items": Metric(
        "counter", "{item}", "Items the peer rejected by partial success", ("exporter", "signal")
    ),
    # What became of accepted spans: accepted + found in the journal at start = unread + read, and
    # read = open + the sum over all dispositions (judged, duplicate, own, too_late, dropped).
    "tracegrade.spans": Metric(
        "counter", "{span}", "Accepted spans by disposition: judged, duplicate, dropped and so on", ("fate", "reason")
    ),
    "tracegrade.spans.open": Metric("gauge", "{span}", "Spans in live traces"),
    "tracegrade.spans.unread": Metric("gauge", "{span}", "Accepted spans that the judge has not read yet"),
    "tracegrade.spans.read": Metric("counter", "{span}", "Spans that the judge has read since its start"),
    # The same of log records; joined: it tells of a span that was there when its trace was judged.
    "tracegrade.log_records": Metric(
        "counter",
        "{log_record}",
        "Accepted log records by disposition: joined, unjoined, dropped and so on",
        ("fate", "reason"),
    ),
    "tracegrade.log_records.open": Metric("gauge", "{log_record}", "Log records in live traces"),
    "tracegrade.log_records.unread": Metric(
        "gauge", "{log_record}", "Accepted log records that the judge has not read yet"
    ),
    "tracegrade.log_records.read": Metric(
        "counter", "{log_record}", "Log records that the judge has read since its start"
    ),
    "tracegrade.traces.open": Metric("gauge", "{trace}", "Live traces"),
    "tracegrade.traces.closed": Metric(
        "counter", "{trace}", "Closed traces by close reason", ("close_reason", "complete")
    ),
    "tracegrade.traces.not_decoded": Metric(
        "counter",
        "{trace}",
        "Closed traces that no rule judges and that were not decoded, by reason: not_matched, sampled_out",
        ("reason",),
    ),
    "tracegrade.spans.not_decoded": Metric(
        "counter", "{span}", "The spans of closed traces that were not decoded, by reason", ("reason",)
    ),
    "tracegrade.process.cpu": Metric(
        "counter", "s", "CPU time that a process of serve has used, of user and system", ("process",)
    ),
    "tracegrade.process.memory": Metric("gauge", "By", "Resident memory of a process of serve", ("process",)),
    "tracegrade.process.open_files": Metric(
        "gauge", "{file}", "Files and connections that a process of serve has open", ("process",)
    ),
    "tracegrade.data_folder.free": Metric("gauge", "By", "Free room on the disk of the data folder"),
    "tracegrade.certificate.remaining": Metric(
        "gauge", "s", "Time until the certificate of a server ends; negative once it has", ("server",)
    ),
    "tracegrade.build_info": Metric(
        "gauge", "1", "1, with the version that runs, as results name it, and the build", ("version", "build")
    ),
    "tracegrade.conditions": Metric(
        "gauge",
        "{condition}",
        "Conditions that hold now; /healthz says since when, where and what to do",
        ("condition",),
    ),
    "tracegrade.series": Metric(
        "gauge",
        "{series}",
        "Series that are named by rules and senders, as Prometheus counts them; telemetry.max_series bounds them",
    ),
    "tracegrade.series.folded": Metric(
        "gauge",
        "{series}",
        "Combinations of tenant, rule, evaluation, agent and service that count as other, over telemetry.max_series",
    ),
    "tracegrade.rules.loaded": Metric("gauge", "{rule}", "Rules in force"),
    "tracegrade.rules.experimental": Metric(
        "gauge", "1", "1 for each rule in force that never alerts because it is experimental", ("rule", "rule_hash")
    ),
    "tracegrade.rules.refused": Metric(
        "gauge", "1", "1 while the rule files have mistakes and the old rules stay in force, else 0"
    ),
    "tracegrade.rules.reloads": Metric(
        "counter", "{reload}", "Reloads of changed rule files, by outcome: loaded or refused", ("outcome",)
    ),
    "tracegrade.judge.lag": Metric(
        "gauge", "By", "Bytes journalled and not yet read by the judge; of several judges, by each", ("judge",)
    ),
    # Kafka as the journal.
    "tracegrade.kafka.lag": Metric(
        "gauge",
        "s",
        "Time since the message read last was written, for each partition that this judge reads; 0 at its end",
        ("partition",),
    ),
    "tracegrade.kafka.malformed": Metric(
        "counter",
        "{message}",
        "Messages that are not judged, or not with all spans, because of what they are; the log has their offsets",
        ("topic", "reason"),
    ),
    "tracegrade.kafka.misplaced": Metric(
        "counter",
        "{message}",
        "Messages found in another partition than their key's by FNV-1a, of those looked at (one in 64)",
        ("topic",),
    ),
    "tracegrade.kafka.senders_times": Metric(
        "counter", "{message}", "Messages with their sender's time: their topic is not LogAppendTime", ("topic",)
    ),
    "tracegrade.kafka.lost": Metric(
        "counter", "{message}", "Messages deleted by the topic's retention before a judge had read them", ("topic",)
    ),
    "tracegrade.kafka.paused": Metric(
        "gauge", "{partition}", "Partitions not read at the moment, so that open traces stay within their bound"
    ),
    "tracegrade.judge.restarts": Metric("counter", "{restart}", "Restarts by the watchdog", ("reason",)),
    "tracegrade.extract.unread_tool_spans": Metric(
        "counter", "{span}", "Spans that look like tool calls and that no dialect reads", ("service", "scope")
    ),
    "tracegrade.extract.unread_model_spans": Metric(
        "counter", "{span}", "Spans of model calls that could not be read", ("service", "scope", "reason")
    ),
    "tracegrade.extract.unread_log_records": Metric(
        "counter",
        "{log_record}",
        "Log records that look like tool calls and name no span, so that no call is read from them",
        ("service", "scope", "reason"),
    ),
    "tracegrade.extract.calls_by_shape": Metric(
        "counter", "{call}", "Calls that no dialect reads and that were read by shape", ("service", "scope")
    ),
    "tracegrade.extract.silent_traces": Metric(
        "counter",
        "{trace}",
        "Traces without any tool call in which a scope of models or agents wrote spans",
        ("service", "scope"),
    ),
    "tracegrade.extract.dialect_errors": Metric(
        "counter",
        "{trace}",
        "Traces read without the dialects of installed packages because one of them raised an error",
    ),
    # Results.
    "tracegrade.evaluation.score": Metric(
        "histogram", "1", "Scores of judged evaluations", _RESULT_LABELS, _SCORE_BUCKETS
    ),
    "tracegrade.evaluations": Metric("counter", "{evaluation}", "Evaluations by outcome", (*_RESULT_LABELS, "outcome")),
    "tracegrade.revisions": Metric(
        "counter", "{evaluation}", "Outcomes changed by a later revision", ("rule", "from", "to")
    ),
    "tracegrade.decisions": Metric("counter", "{decision}", "Decisions by kind", ("rule", "kind")),
    "tracegrade.sink.delivered_records": Metric("counter", "{record}", "Judged traces delivered", ("sink",)),
    "tracegrade.sink.dropped_records": Metric(
        "counter", "{record}", "Judged traces that a sink gave up", ("sink", "reason")
    ),
    "tracegrade.sink.retries": Metric(
        "counter", "{retry}", "Deliveries that failed and are repeated", ("sink", "reason")
    ),
    "tracegrade.alerts.firing": Metric(
        "gauge",
        "{alert}",
        "Alerts that fire now; 0 for what fired since the start",
        ("tenant", "rule", "service", "agent", "level"),
    ),
    "tracegrade.slo.budget_left": Metric(
        "gauge", "1", "The part of an error budget that is left; below 0 when more was spent", _SLO_LABELS
    ),
    "tracegrade.slo.burn_rate": Metric(
        "gauge", "1", "How many times as fast as its objective allows a budget is spent, by window", _SLO_LABELS
    ),
    "tracegrade.alerts.failed_checks": Metric("counter", "{check}", "Checks of alerts that failed and are repeated"),
    "tracegrade.alerts.notifications": Metric(
        "counter", "{notification}", "Notifications by outcome", ("receiver", "outcome")
    ),
    # The access log.
    "tracegrade.access_log.entries": Metric("counter", "{entry}", "Entries of the access log"),
    "tracegrade.access_log.lost": Metric(
        "counter", "{entry}", "Entries that the access log lost: too many at a time, or the disk refused"
    ),
}


class Telemetry:
    """Counters, gauges and histograms of one process. Thread-safe; one lock a call, so call per batch.

    ``conditions`` are what is wrong in it; a snapshot holds them, and their numbers as a metric. `max_series` bounds
    the series whose names come from `fit`, and `max_tenants` the tenants among these names.
    """

    def __init__(self, role: str, max_series: int = MAX_SERIES, max_tenants: int = MAX_TENANTS) -> None:
        self.role = role
        self.conditions = Conditions()
        self.started_ns = time_ns()
        self._lock = threading.Lock()
        self.max_series = max_series
        self._bound = SeriesBound(max_series)
        self._max_tenants = max_tenants
        self._tenants: set[str] = set()
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        # Of counters and histograms: since when a series is there, in ns; and the latest exemplar of each bucket, of
        # which a counter has one.
        self._created: dict[str, dict[Labels, int]] = {}
        self._exemplars: dict[str, dict[Labels, dict[int, Exemplar]]] = {}

    def fit(self, metric: str, cost: int, *names: Names) -> Names:
        """The first of `names`, the most exact one, that there is room for (see `SeriesBound`).

        The first time that something does not fit, a condition begins.
        """
        found = self._bound.fit(metric, cost, names)
        if found is not names[0] and not self.conditions.holds("too_many_series"):
            self.conditions.begin(
                "too_many_series", f"there is room for {self.max_series:,} series; what does not fit counts as other"
            )
        return found

    def tenant(self, tenant: str) -> str:
        """The tenant as metrics name it: those that came first by their names, any more as `OTHER`.

        Many of them would take the room of agents and services, and make each snapshot as large as can be.
        """
        if tenant not in self._tenants:
            with self._lock:
                if len(self._tenants) >= self._max_tenants:
                    return OTHER
                self._tenants.add(tenant)
        return tenant

    def add(self, name: str, amount: float = 1, exemplar: Exemplar | None = None, /, **labels: str) -> None:
        """Add to a counter."""
        key = series(name, **labels)
        with self._lock:
            values = self._numbers.setdefault(name, {})
            if key not in values:
                self._begin(name, key)
            values[key] = values.get(key, 0) + amount
            if exemplar is not None:
                self._exemplars.setdefault(name, {})[key] = {0: exemplar}

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge, or a counter that is kept elsewhere."""
        key = series(name, **labels)
        with self._lock:
            values = self._numbers.setdefault(name, {})
            if key not in values and METRICS[name].kind == "counter":
                self._begin(name, key)
            values[key] = value

    def replace(self, values: Mapping[str, Mapping[Labels, float]]) -> None:
        """Set all series of several metrics at once: a snapshot sees all of them or none (see `series`)."""
        with self._lock:
            for name, by_series in values.items():
                if METRICS[name].kind == "counter":
                    for key in by_series.keys() - self._created.get(name, {}).keys():
                        self._begin(name, key)
                self._numbers[name] = dict(by_series)

    def observe(self, name: str, values: Sequence[float], exemplars: Sequence[Exemplar] = (), /, **labels: str) -> None:
        """Record values into a histogram; `exemplars` are some of them."""
        key = series(name, **labels)
        buckets = METRICS[name].buckets
        with self._lock:
            of_metric = self._histograms.setdefault(name, {})
            if key not in of_metric:
                self._begin(name, key)
            # One count per bucket and one above the last, then the sum.
            cells = of_metric.setdefault(key, [0.0] * (len(buckets) + 2))
            for value in values:
                cells[bisect_left(buckets, value)] += 1
                cells[-1] += value
            if exemplars:
                latest = self._exemplars.setdefault(name, {}).setdefault(key, {})
                latest.update({bisect_left(buckets, exemplar.value): exemplar for exemplar in exemplars})

    def forget_gauge(self, name: str, /, **labels: str) -> None:
        """Forget all series of a gauge that carry `labels`: what they said is no more."""
        gone = set(labels.items())
        with self._lock:
            values = self._numbers.get(name, {})
            self._numbers[name] = {key: value for key, value in values.items() if not gone <= set(key)}

    def forget_traces(self, trace_ids: Collection[str]) -> None:
        """Forget the exemplars of these traces (hex); what they count stays."""
        with self._lock:
            for by_series in self._exemplars.values():
                for key, by_bucket in by_series.items():
                    left = {bucket: item for bucket, item in by_bucket.items() if item.trace_id not in trace_ids}
                    by_series[key] = left

    def _begin(self, name: str, key: Labels) -> None:
        self._created.setdefault(name, {})[key] = time_ns()

    def value(self, name: str, /, **labels: str) -> float:
        """The sum over all series of `name` that carry `labels`, 0 when there is none."""
        wanted = set(labels.items())
        with self._lock:
            return sum(v for key, v in self._numbers.get(name, {}).items() if wanted <= set(key))

    def snapshot(self) -> dict[str, Any]:
        """All values at one moment, as plain JSON: name -> list of {labels, value} or {labels, counts, sum}.

        Counters and histograms have their ``created_ns`` beside it, and lists in ``exemplars``: bucket, trace id, span
        id, value, time in ns.
        """
        conditions = self.conditions.current()
        by_name = Counter(condition.name for condition in conditions)
        with self._lock:
            numbers = {
                name: [{"labels": dict(key), "value": value} | self._since(name, key) for key, value in values.items()]
                for name, values in self._numbers.items()
            }
            histograms = {
                name: [
                    {"labels": dict(key), "counts": cells[:-1], "sum": cells[-1]} | self._since(name, key)
                    for key, cells in values.items()
                ]
                for name, values in self._histograms.items()
            }
        if self._bound.series:
            numbers["tracegrade.series"] = [{"labels": {}, "value": self._bound.series}]
            numbers["tracegrade.series.folded"] = [{"labels": {}, "value": self._bound.folded}]
        if by_name:
            numbers["tracegrade.conditions"] = [
                {"labels": {"condition": name}, "value": number} for name, number in by_name.items()
            ]
        return {
            "role": self.role,
            "started_ns": self.started_ns,
            "time_ns": time_ns(),
            "conditions": [condition.to_json() for condition in conditions],
            "metrics": numbers | histograms,
        }

    def _since(self, name: str, key: Labels) -> dict[str, Any]:
        created_ns = self._created.get(name, {}).get(key)
        if created_ns is None:
            return {}
        exemplars = self._exemplars.get(name, {}).get(key)
        if not exemplars:
            return {"created_ns": created_ns}
        return {"created_ns": created_ns, "exemplars": [(bucket, *item) for bucket, item in exemplars.items()]}


def without_traces(snapshot: dict[str, Any], trace_ids: Collection[str]) -> dict[str, Any]:
    """A `Telemetry.snapshot` without the exemplars of these traces (hex)."""
    metrics = {
        name: [
            item | {"exemplars": [one for one in item["exemplars"] if one[1] not in trace_ids]}
            if "exemplars" in item
            else item
            for item in of_metric
        ]
        for name, of_metric in snapshot["metrics"].items()
    }
    return snapshot | {"metrics": metrics}


def of_tenants(snapshot: Mapping[str, Any], tenants: Collection[str]) -> Mapping[str, Any]:
    """A `Telemetry.snapshot` with those series alone whose label ``tenant`` names one of `tenants`."""
    named = set(tenants) - {OTHER}  # a tenant of this name counts with those that have no name in metrics
    metrics = {
        name: [item for item in of_metric if item["labels"].get("tenant") in named]
        for name, of_metric in snapshot["metrics"].items()
    }
    return {**snapshot, "metrics": {name: items for name, items in metrics.items() if items}}


@lru_cache(maxsize=4096)
def series(name: str, /, **labels: str) -> Labels:
    """The key of one series of a metric; refuses labels that the metric does not have."""
    metric = METRICS[name]
    if unknown := labels.keys() - set(metric.labels):
        raise ValueError(f"metric {name} has no label {sorted(unknown)!r}; METRICS lists {metric.labels!r}")
    return tuple(sorted(labels.items()))
