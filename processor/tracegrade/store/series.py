"""The numbers of series, by which text that many results share is stored once; and the bound on their names.

Senders choose the names of agents, services and releases, and may put an id into one. Each further name would be series
of its own: rows that are stored for all time, and that every chart and alert adds up. Beyond the bound of a tenant,
results are counted under `OTHER`; their rows keep the names that they came with.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, exists, func, select

from tracegrade import semconv
from tracegrade.codec.json_text import storable
from tracegrade.store.database import Lock, rows_in
from tracegrade.store.open import check_version, reading
from tracegrade.store.registry import database
from tracegrade.store.schema import (
    DAY_MINUTES,
    EVERY_TRACE,
    MINUTE_NS,
    WHOLE_RULE,
    WHOLE_RUN,
    counts,
    rule_texts,
    series,
)
from tracegrade.telemetry.series_bound import MAX_NAMES, OTHER

SERVICE, RELEASE, AGENT = semconv.SERVICE_NAME, semconv.SERVICE_VERSION, semconv.AGENT_NAME
_COLUMNS = {SERVICE: series.c.service, RELEASE: series.c.release, AGENT: series.c.agent}
_ALWAYS = frozenset(("", OTHER))


class Beyond(NamedTuple):
    """An attribute with more names than are counted: whose, which ``service`` sent such a name last, and that name."""

    tenant: str
    attribute: str
    service: str
    name: str


class TenantNames:
    """The names of one tenant that are counted by themselves, by attribute."""

    def __init__(self, tenant: str, most: int) -> None:
        self._tenant = tenant
        self._most = most + len(_ALWAYS)
        self.known = {attribute: set(_ALWAYS) for attribute in _COLUMNS}
        self.beyond: dict[str, Beyond] = {}

    def counted(self, attribute: str, name: str, service: str) -> str:
        """The name to count `name` by, which is `OTHER` where there are too many; `service` is the sender's."""
        name = storable(name)
        known = self.known[attribute]
        if name in known:
            return name
        if len(known) < self._most:
            known.add(name)
            return name
        self.beyond[attribute] = Beyond(self._tenant, attribute, service, name)
        return OTHER


class CountedNames:
    """The counted names of all tenants: those that the store has counts of, and those that came since."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        """Of each tenant, count at most so many names of each attribute."""
        self._most = most
        self._tenants: dict[str, TenantNames] = {}

    def of(self, tenant: str) -> TenantNames:
        """The names of one tenant."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantNames(tenant, self._most)
        return found

    def load(self, connection: Connection) -> None:
        """Begin with the names that have counts: those of which retention has deleted all make room for others."""
        self._tenants.clear()
        counted = select(counts.c.series).where(counts.c.minutes.in_((DAY_MINUTES, WHOLE_RUN)))
        self._add(connection, series.c.number.in_(counted))

    def add_after(self, connection: Connection, number: int) -> None:
        """Add the names of the series after `number`, which other processes have stored."""
        self._add(connection, series.c.number > number)

    def take_beyond(self) -> Iterator[Beyond]:
        """The attributes of which names did not fit since the last call."""
        for names in self._tenants.values():
            yield from names.beyond.values()
            names.beyond.clear()

    def _add(self, connection: Connection, which: object) -> None:
        query = select(series.c.tenant, *_COLUMNS.values()).where(which).distinct()  # type: ignore[arg-type]
        for tenant, *names in connection.execute(query):
            known = self.of(tenant).known
            for attribute, name in zip(_COLUMNS, names, strict=True):
                if name is not None:
                    known[attribute].add(name)


def last_number(connection: Connection) -> int:
    """The highest number of a series; 0 without any."""
    found: int = connection.execute(select(func.coalesce(func.max(series.c.number), 0))).scalar_one()
    return found


_MAX_REMEMBERED = 100_000
# So many series take some 20 ms, for which other writers wait.
_LEARNT_TOGETHER = 1000
# Names of which no counts are left make room only when names are read from the store again.
_READ_NAMES_EVERY_S = 3600.0

Origin: TypeAlias = tuple[str, str, str, str | None, str]  # tenant, run, service, release, version of TraceGrade
Rule: TypeAlias = tuple[str, str, str, str, float]  # rule id, rule hash, level, agent, probability

TRACES: Rule = (EVERY_TRACE, "", "", "", 1.0)
"""The rule of the series that count the traces of a service, judged or not, whose release and version are unknown."""

IS_EVALUATION = series.c.evaluator != ""
"""Chooses the series of evaluations: not those of whole rules, and not those of what was measured."""


class Series(NamedTuple):
    """The low-cardinality fields that results of one series share; ``evaluation`` is "" for a rule as a whole.

    Of what was measured, ``evaluation`` is the name of the measure, and ``evaluator`` is "". ``tracegrade`` is the
    version that judged, "" if unknown.
    """

    tenant: str
    run: str
    rule_id: str
    rule_hash: str
    evaluation: str
    evaluator: str
    level: str
    threshold: float | None
    service: str
    release: str | None
    agent: str
    probability: float
    tracegrade: str

    @classmethod
    def of(cls, origin: Origin, rule: Rule, evaluation: str, evaluator: str, threshold: float | None) -> "Series":
        """The series of what a rule says of an origin; names are `storable`."""
        tenant, run, service, release, tracegrade = origin
        rule_id, rule_hash, level, agent, probability = rule
        return cls(
            tenant,
            run,
            rule_id,
            rule_hash,
            evaluation,
            evaluator,
            level if evaluator else "",
            threshold,
            service,
            release,
            agent,
            probability,
            tracegrade,
        )

    @property
    def key(self) -> bytes:
        """16 bytes that identify the series: a hash of all fields."""
        # Series without a known version keep the key from the time when no version was stored, so that they go on.
        fields = tuple(self) if self.tracegrade else tuple(self)[:-1]
        return blake2b(repr(fields).encode("utf-8", "backslashreplace"), digest_size=16).digest()


Missing: TypeAlias = dict[Series, tuple[Origin, Rule]]


class SeriesNumbers:
    """The number of each series, remembered; used by one thread at a time.

    New series are stored before the results that need them, many in a transaction, and stay when those results are not
    stored: then they are there for the next attempt.
    """

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        """Of each tenant, at most so many names of services, of releases and of agents have series of their own."""
        self._names = CountedNames(max_names)
        self._names_read_s: float | None = None
        self._last = 0  # of the series whose names are known
        self._by_origin: dict[Origin, defaultdict[Rule, dict[str, int]]] = {}
        self._remembered = 0

    def names_of(self, tenant: str) -> TenantNames:
        """The names by which results of a tenant are counted."""
        return self._names.of(tenant)

    def origin(self, tenant: str, run: str, service: str, release: str | None, tracegrade: str) -> Origin:
        """The origin by which results are counted."""
        names = self._names.of(tenant)
        counted_release = None if release is None else names.counted(RELEASE, release, service)
        return tenant, run, names.counted(SERVICE, service, service), counted_release, tracegrade

    def known(self, origin: Origin) -> Mapping[Rule, dict[str, int]]:
        """The known numbers of the series of `origin`, by rule, then by evaluation; `learn` adds missing ones.

        Evaluator and threshold follow from the rule's hash. Every rule has an entry, which may be empty.
        """
        return self._of(origin)

    def prepare(self, engine: Engine) -> None:
        """Make room, and read the names that are counted: before each batch, and never within one."""
        if self._remembered >= _MAX_REMEMBERED:
            self._by_origin.clear()
            self._remembered = 0
        if self._names_read_s is None or time.monotonic() - self._names_read_s > _READ_NAMES_EVERY_S:
            with reading(engine) as connection:
                self._names.load(connection)
                self._last = last_number(connection)
            self._names_read_s = time.monotonic()

    def learn(self, engine: Engine, missing: Missing) -> None:
        """Learn the numbers of `missing`, and store those that are new.

        In transactions of its own, each short, so that other writers wait for none of them for long.

        Raises:
            SQLAlchemyError: the database refused.
        """
        left = iter(missing.items())
        while some := dict(islice(left, _LEARNT_TOGETHER)):
            self._learn(engine, some)

    def take_beyond(self) -> list[Beyond]:
        """The attributes of which names were counted as `other` since the last call."""
        return list(self._names.take_beyond())

    def forget(self) -> None:
        """Forget everything, because the database refused something: it may be another one the next time."""
        self._by_origin.clear()
        self._remembered = 0
        self._names_read_s = None

    def _learn(self, engine: Engine, missing: Missing) -> None:
        keys = {each.key: each for each in missing}
        # In a transaction of its own, and short. In that of a batch, two writers on a server that learn the same series
        # in another order would wait for each other for ever, and with SQLite everybody would wait until all names of
        # the batch are stored.
        with engine.begin() as connection:
            database(connection).hold(connection, Lock.NUMBERING_SERIES)
            check_version(connection)
            if (last := last_number(connection)) != self._last:
                self._names.add_after(connection, self._last)
            numbers = _stored(connection, list(keys))
            new = {key: each for key, each in keys.items() if key not in numbers}
            numbers |= {key: number for number, key in enumerate(new, last + 1)}
            database(connection).insert(connection, series, [(numbers[key], key, *each) for key, each in new.items()])
            self._last = last + len(new)
        for key, each in keys.items():
            origin, rule = missing[each]
            self._of(origin)[rule][each.evaluation] = numbers[key]
        self._remembered += len(missing)

    def _of(self, origin: Origin) -> defaultdict[Rule, dict[str, int]]:
        found = self._by_origin.get(origin)
        if found is None:
            found = self._by_origin[origin] = defaultdict(dict)
        return found


def stored_traffic(connection: Connection, tenant: str, run: str, service: str) -> int | None:
    """The number of the stored series that counts the traces of a service by its own name; None without one."""
    key = Series.of((tenant, run, service, None, ""), TRACES, WHOLE_RULE, "", None).key
    return _stored(connection, [key]).get(key)


def _stored(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
    """The numbers of the stored series with these keys."""
    rows = rows_in(connection, select(series.c.key, series.c.number), series.c.key, keys)
    return {bytes(key): number for key, number in rows}


SeriesNames = tuple[str, str, str, str, str, str]
"""Tenant, rule id, rule hash, evaluation, agent, service."""


def recent_series(connection: Connection, since_ns: int, most: int) -> list[SeriesNames]:
    """The series of live results since the (UTC) day of `since_ns`, those with the latest results first.

    At most `most`. Series of a rule that was changed since are left out: they get no more results. It reads the sums by
    day, so the cost grows with series and days, not with results.
    """
    columns = series.c
    names = (
        columns.tenant,
        columns.rule_id,
        columns.rule_hash,
        columns.evaluation,
        columns.agent,
        columns.service,
    )
    minute = since_ns // MINUTE_NS
    query = (
        select(*names)
        .join(counts, counts.c.series == series.c.number)
        .where(
            counts.c.minutes == DAY_MINUTES,
            counts.c.minute >= minute - minute % DAY_MINUTES,
            series.c.run == "live",
            series.c.rule_id != EVERY_TRACE,
            IS_EVALUATION,
            ~_was_changed(),
        )
        .group_by(*names)
        .order_by(func.max(counts.c.minute).desc(), *names)
        .limit(most)
    )
    return [
        (tenant, rule, rule_hash, name, agent, service)
        for tenant, rule, rule_hash, name, agent, service in connection.execute(query)
    ]


def _was_changed() -> ColumnElement[bool]:
    """Whether the rule of a series judged something else later than it last judged what the series is of."""
    own, other = rule_texts.alias("own"), rule_texts.alias("other")
    of_series = (own.c.rule_id == series.c.rule_id, own.c.rule_hash == series.c.rule_hash)
    last = select(func.max(own.c.since_ns)).where(*of_series).correlate(series).scalar_subquery()
    return exists().where(
        other.c.rule_id == series.c.rule_id, other.c.rule_hash != series.c.rule_hash, other.c.since_ns > last
    )
