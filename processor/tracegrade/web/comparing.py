"""Comparisons for the page and the API: quick ones from counts; full ones in a process of their own, one at a time.

A full comparison reads up to 500,000 traces of each side: seconds of CPU and much memory, which other pages must not
wait for. Its process yields to the judge, and ends after `LONGEST_S`.
"""

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from typing import Any

from tracegrade.compare.compare import Wanted, compare
from tracegrade.compare.comparison import Comparison
from tracegrade.compare.sides import CompareError, Side, named_side
from tracegrade.compare.verdict import MARGIN
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.usage import no_prices
from tracegrade.rule.prices import Price, Prices
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import LIVE
from tracegrade.web.rights import Token, may
from tracegrade.web.sources import Sources
from tracegrade.web.times import time_of

LONGEST_S = 120.0
RETRY_S = 5

_LOOK_EVERY_S = 0.1
_NICENESS = 10

logger = logging.getLogger(__name__)


class Busy(TraceGradeError):
    """Another full comparison is being made."""


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
        self._one = threading.Lock()
        self._longest_s = longest_s

    @property
    def is_busy(self) -> bool:
        """Whether a full comparison is being made."""
        return self._one.locked()

    def compare(self, sources: Sources, asked: Asked, token: Token) -> Comparison:
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
            _check_counted(a, b)
            wanted = Wanted(asked.margin, asked.allow_within_margin, rates_only=True)
            with sources.store() as connection:
                found = compare(connection, a, b, wanted)
        return found if may(token, "read-values") else _without_values(found)

    def _in_full(self, sources: Sources, a: Side, b: Side, asked: Asked) -> Comparison:
        with sources.store():  # else the other process would say that there is none
            pass
        if not self._one.acquire(blocking=False):
            raise Busy("another full comparison is being made; try again in a moment")
        try:
            return self._by_process(sources, a, b, asked)
        finally:
            self._one.release()

    def _by_process(self, sources: Sources, a: Side, b: Side, asked: Asked) -> Comparison:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe(duplex=False)
        job = (theirs, sources.config.store_url, a, b, asked, dict(sources.config.traces.prices))
        process = spawn.Process(target=_work, args=job, daemon=True, name="compare")
        process.start()
        theirs.close()
        ends_s = time.monotonic() + self._longest_s
        try:
            while not ours.poll(_LOOK_EVERY_S):
                if sources.is_stopping() or time.monotonic() > ends_s:
                    raise CompareError(
                        f"not done within {self._longest_s:g} s: choose a shorter time or a single rule, or call "
                        "'tracegrade compare'"
                    )
            kind, found = ours.recv()
        except EOFError:
            process.join()
            raise RuntimeError(f"the process that compares ended with code {process.exitcode}") from None
        finally:
            process.kill()
            process.join()
            ours.close()
        if kind == "refused":
            raise CompareError(found)
        assert isinstance(found, Comparison)
        return found


def _work(pipe: Pipe, store_url: str, a: Side, b: Side, asked: Asked, prices: Mapping[str, Price]) -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C, which a terminal sends to all, is for `serve`
    os.nice(_NICENESS)
    gc.disable()  # what is read is kept to the end, which is that of the process
    wanted = Wanted(
        asked.margin,
        asked.allow_within_margin,
        behaviour=asked.behaviour,
        cost_of=Prices(prices) if prices else no_prices,
    )
    answer: tuple[str, Any]
    try:
        with reading_store(store_url) as connection:
            answer = ("found", compare(connection, a, b, wanted))
    except TraceGradeError as error:
        answer = ("refused", str(error))
    pipe.send(answer)
    pipe.close()


def _check_counted(*sides: Side) -> None:
    """Refuse sides of which only single results tell."""
    for side in sides:
        chosen = side.result_filter
        if side.model is not None:
            raise CompareError(f"{side.text}: results are not counted by model; compare in full")
        if chosen.run != LIVE and (chosen.since_ns, chosen.until_ns) != (None, None):
            raise CompareError(f"{side.text}: results of a run are not counted by time; compare in full")


def _without_values(found: Comparison) -> Comparison:
    if found.behaviour is None:
        return found
    arguments = [replace(item, values=()) for item in found.behaviour.arguments]
    return replace(found, behaviour=replace(found.behaviour, arguments=arguments))
