"""Comparisons for the page and the API: quick ones from counts; full ones in a process of their own, one at a time.

A full comparison reads up to 500,000 traces of each side.
"""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracegrade.access.caller import Caller
from tracegrade.compare.compare import Wanted, compare
from tracegrade.compare.comparison import Comparison
from tracegrade.compare.sides import CompareError, Side, named_side
from tracegrade.queries.times import time_of
from tracegrade.rule.gate import MARGIN
from tracegrade.rule.prices import Price, cost_by
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.own_process import LONGEST_S, OwnProcess
from tracegrade.web.sources import Sources


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be compared: two sides as people name them, filters of both, and how thoroughly."""

    a: str
    b: str
    filters: ResultFilter
    margin: float = MARGIN
    allow_within_margin: bool = False
    full: bool = False
    behaviour: bool = True

    def sides(self) -> tuple[Side, Side]:
        """Both sides.

        Raises:
            CompareError: one names nothing.
        """
        return named_side(self.a, time_of, self.filters), named_side(self.b, time_of, self.filters)


class Comparing:
    """Compares, with at most one full comparison at a time."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        hint = "choose a shorter time or a single rule, or call 'tracegrade compare'"
        self._process = OwnProcess("full comparison", CompareError, hint, longest_s)

    @property
    def is_busy(self) -> bool:
        """Whether a full comparison is being made."""
        return self._process.is_busy

    def compare(self, sources: Sources, asked: Asked, caller: Caller) -> Comparison:
        """How the two sides differ; without values of arguments for callers who may not see them.

        Raises:
            CompareError: the sides cannot be compared, or that takes too long.
            Busy: another full comparison is being made.
            StoreError: there is no store, or it cannot be read.
        """
        a, b = asked.sides()
        if asked.full:
            found = self._in_full(sources, a, b, asked)
        else:
            wanted = Wanted(asked.margin, asked.allow_within_margin, rates_only=True)
            with sources.store() as connection:
                found = compare(connection, a, b, wanted)
        return found if caller.may("read-values") else _without_values(found)

    def _in_full(self, sources: Sources, a: Side, b: Side, asked: Asked) -> Comparison:
        with sources.store():  # else the other process would say that there is none
            pass
        arguments = (sources.config.store_url, sources.tenant, a, b, asked, dict(sources.config.traces.prices))
        return self._process.call(_work, *arguments, is_stopping=sources.is_stopping)


COMPARING = Comparing()
"""That of the page and the API of this process."""


def _work(
    store_url: str, tenant: str | None, a: Side, b: Side, asked: Asked, prices: Mapping[str, Price]
) -> Comparison:
    """What the other process does."""
    gc.disable()  # what is read is kept to the end, which is that of the process
    wanted = Wanted(
        asked.margin,
        asked.allow_within_margin,
        behaviour=asked.behaviour,
        cost_of=cost_by(prices),
    )
    with reading_store(store_url, tenant) as connection:
        return compare(connection, a, b, wanted)


def _without_values(found: Comparison) -> Comparison:
    if found.behaviour is None:
        return found
    arguments = [replace(item, values=()) for item in found.behaviour.arguments]
    return replace(found, behaviour=replace(found.behaviour, arguments=arguments))
