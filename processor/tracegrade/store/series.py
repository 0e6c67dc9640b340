"""The numbers of series, by which text that many results share is stored once."""

from collections import defaultdict
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, func, insert, select

from tracegrade.codec.json_text import storable
from tracegrade.store.open import numbering_series
from tracegrade.store.present_hashes import present_hash
from tracegrade.store.schema import series

# Senders choose agent names, and may put an id into them.
_MAX_REMEMBERED = 100_000

Origin: TypeAlias = tuple[str, str, str, str | None, str]  # tenant, run, service, release, version of TraceGrade
Rule: TypeAlias = tuple[str, str, str, str, float]  # rule id, rule hash, level, agent, probability


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

    @property
    def key(self) -> bytes:
        """16 bytes that identify the series: a hash of all fields."""
        # Series without a known version keep the key from the time when no version was stored, so that they go on.
        fields = tuple(self) if self.tracegrade else tuple(self)[:-1]
        return blake2b(repr(fields).encode("utf-8", "backslashreplace"), digest_size=16).digest()


class SeriesNumbers:
    """The number of each series, remembered; used inside the transactions of one writer."""

    def __init__(self) -> None:
        self._by_origin: dict[Origin, defaultdict[Rule, dict[str, int]]] = {}
        self._remembered = 0

    def known(self, origin: Origin) -> Mapping[Rule, dict[str, int]]:
        """The known numbers of the series of `origin`, by rule, then by evaluation; `learn` adds a missing one.

        Evaluator and threshold follow from the rule's hash. Every rule has an entry, which may be empty.
        """
        if self._remembered >= _MAX_REMEMBERED:
            self.forget()
        return self._of(origin)

    def learn(
        self,
        connection: Connection,
        origin: Origin,
        rule: Rule,
        evaluation: str,
        evaluator: str = "",
        threshold: float | None = None,
    ) -> int:
        """The number of a series that is not in `known`; stores the series when it is new."""
        tenant, run, service, release, tracegrade = origin
        rule_id, rule_hash, level, agent, probability = rule
        found = _stored_number(
            connection,
            Series(
                tenant,
                run,
                rule_id,
                rule_hash,
                evaluation,
                evaluator,
                level if evaluator else "",
                threshold,
                storable(service),
                storable(release) if release is not None else None,
                storable(agent),
                probability,
                tracegrade,
            ),
        )
        self._of(origin)[rule][evaluation] = found
        self._remembered += 1
        return found

    def forget(self) -> None:
        """Forget all numbers, because a transaction that stored new series was rolled back."""
        self._by_origin.clear()
        self._remembered = 0

    def _of(self, origin: Origin) -> defaultdict[Rule, dict[str, int]]:
        found = self._by_origin.get(origin)
        if found is None:
            found = self._by_origin[origin] = defaultdict(dict)
        return found


def _stored_number(connection: Connection, searched: Series) -> int:
    known = select(series.c.number).where(series.c.key == searched.key)
    found: int | None = connection.execute(known).scalar()
    if found is None:
        with numbering_series(connection) as own:
            found = own.execute(known).scalar() or _add(own, searched)  # another writer may have just added it
    return found


def _add(connection: Connection, new: Series) -> int:
    number: int = connection.execute(select(func.coalesce(func.max(series.c.number), 0) + 1)).scalar_one()
    # Results of an earlier version may be delivered after an upgrade.
    known_as = present_hash(connection, new.rule_hash)
    connection.execute(insert(series).values(number=number, key=new.key, present_hash=known_as, **new._asdict()))
    return number
