"""The numbers of series: what repeats from result to result is stored once."""

from hashlib import blake2b
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from tracegrade.store.schema import series

# Agent names are the sender's: nothing stops one from putting an id into them.
_MAX_CACHED = 100_000


class Series(NamedTuple):
    """All that low-cardinality text by which results are told apart; ``evaluation`` is "" for a rule as a whole."""

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

    @property
    def key(self) -> bytes:
        """16 bytes that stand for all fields."""
        return blake2b(repr(tuple(self)).encode("utf-8", "backslashreplace"), digest_size=16).digest()


class SeriesNumbers:
    """The number of each series, remembered; used inside the transactions of one writer."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str | float | None, ...], int] = {}

    def number(self, connection: Connection, fields: tuple[str | float | None, ...]) -> int:
        """The number of the series with `fields` (those of `Series`, in order); stored when it is new."""
        found = self._numbers.get(fields)
        if found is None:
            if len(self._numbers) >= _MAX_CACHED:
                self._numbers.clear()
            found = self._numbers[fields] = _stored_number(connection, Series(*fields))  # type: ignore[arg-type]
        return found

    def forget(self) -> None:
        """Forget what was remembered: a transaction that gave out numbers was rolled back."""
        self._numbers.clear()


def _stored_number(connection: Connection, wanted: Series) -> int:
    key = wanted.key
    found: int | None = connection.execute(select(series.c.number).where(series.c.key == key)).scalar()
    if found is None:
        found = connection.execute(select(func.coalesce(func.max(series.c.number), 0) + 1)).scalar_one()
        connection.execute(insert(series).values(number=found, key=key, **wanted._asdict()))
    return found
