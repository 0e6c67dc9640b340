"""The numbers of series, by which text that many results share is stored once."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine, select

from tracegrade.store.database import Lock, in_parts
from tracegrade.store.names import RELEASE, SERVICE, Beyond, CountedNames, TenantNames, last_number
from tracegrade.store.open import check_version, reading
from tracegrade.store.registry import database
from tracegrade.store.schema import EVERY_TRACE, WHOLE_RULE, series
from tracegrade.telemetry.series_bound import MAX_NAMES

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
    queries = (select(series.c.key, series.c.number).where(series.c.key.in_(some)) for some in in_parts(keys))
    return {bytes(key): number for query in queries for key, number in connection.execute(query)}
