"""Keeps senders to what their tenant, and their service within it, may send.

Each quota is a bucket that fills at its rate, and holds what comes in `BURST_S`. A request is taken while something is
in it, however large it is, and what was lacking has to come in before the next one is taken. So a sender of large
batches gets the same rate as one of small ones.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from math import ceil

from tracegrade.access.quotas import QuotasSettings, RateQuota
from tracegrade.journal.record import Entry
from tracegrade.model.signal import Signal
from tracegrade.otlp.service import service_of
from tracegrade.receive.ingest import Refused
from tracegrade.telemetry.metrics import Telemetry

BURST_S = 5.0
LONGEST_WAIT_S = 60
OTHER = "other"
"""In metrics, the tenants and services that the settings do not name."""

_MOST_BUCKETS = 10_000
_MOST_CONDITIONS = 100
_QUIET_S = 10.0  # after the last refusal, the condition ends


class _Bucket:
    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._left = rate * BURST_S
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next request is taken; 0 for now."""
        self._left = min(self.rate * BURST_S, self._left + (now_s - self._at_s) * self.rate)
        self._at_s = now_s
        return 0.0 if self._left > 0 else max(-self._left / self.rate, 1e-3)

    def take(self, size: float) -> None:
        self._left -= size


class Quotas:
    """The buckets of all tenants and services that have quotas."""

    def __init__(
        self, settings: QuotasSettings, telemetry: Telemetry, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._now_s = now_s
        self._buckets: OrderedDict[tuple[str, str, str], _Bucket] = OrderedDict()
        self._refused_s: dict[str, float] = {}  # by tenant, when something of it was refused last

    def refusal(self, entry: Entry) -> Refused | None:
        """Why a request is not taken now; None if it is, and it counts then."""
        now_s = self._now_s()
        wanted = list(self._of(entry, now_s))
        for tenant, service, quota, bucket, _ in wanted:
            if (wait_s := bucket.wait_s(now_s)) > 0:
                return self._refused(tenant, service, quota, bucket.rate, wait_s, now_s)
        for *_, bucket, size in wanted:
            bucket.take(size)
        return None

    def end_quiet(self) -> None:
        """End the conditions of tenants of which nothing was refused for a while; called now and then."""
        for tenant, refused_s in list(self._refused_s.items()):
            if self._now_s() - refused_s > _QUIET_S:
                del self._refused_s[tenant]
                self._telemetry.conditions.end("over_quota", tenant)

    def _of(self, entry: Entry, now_s: float) -> Iterator[tuple[str, str, str, _Bucket, float]]:
        """Tenant, service ("" for all), quota and bucket of each bound of a request, and how much it takes of it."""
        quota = self._settings.of(entry.tenant)
        rates: list[tuple[str, RateQuota]] = [("", quota)]
        if quota.services and entry.signal is not Signal.METRICS:
            service = service_of(entry.payload)
            if service in quota.services:
                rates.append((service, quota.services[service]))
        for service, rate in rates:
            if rate.spans_per_second is not None and entry.signal is not Signal.METRICS:
                bucket = self._bucket(entry.tenant, service, "spans_per_second", rate.spans_per_second, now_s)
                yield entry.tenant, service, "spans_per_second", bucket, entry.items
            if rate.bytes_per_second is not None:
                bucket = self._bucket(entry.tenant, service, "mib_per_second", rate.bytes_per_second, now_s)
                yield entry.tenant, service, "mib_per_second", bucket, len(entry.payload)

    def _bucket(self, tenant: str, service: str, quota: str, rate: float, now_s: float) -> _Bucket:
        key = tenant, service, quota
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(rate, now_s)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket

    def _refused(self, tenant: str, service: str, quota: str, rate: float, wait_s: float, now_s: float) -> Refused:
        is_named = tenant in self._settings.tenants
        where = f"quotas.tenants.{tenant}" if is_named else "quotas.each"
        if service:
            where += f".services.{service}"
        bound, what = (rate / 1024**2, "MiB") if quota == "mib_per_second" else (rate, "spans")
        who = f"tenant {tenant!r}" + (f", service {service!r}," if service else "")
        message = f"{who} has sent more than {bound:g} {what} a second, the bound {where}.{quota}"
        self._telemetry.add(
            "tracegrade.receiver.over_quota", tenant=tenant if is_named else OTHER, service=service, quota=quota
        )
        if tenant in self._refused_s or len(self._refused_s) < _MOST_CONDITIONS:
            self._refused_s[tenant] = now_s
            self._telemetry.conditions.begin("over_quota", message, tenant)
        return Refused("over_quota", f"{message}; send again later", min(LONGEST_WAIT_S, max(1, ceil(wait_s))))
