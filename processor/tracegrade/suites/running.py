"""Runs the cases of a suite with several models: providers beside each other, models of one provider in turn.

Threads, since they mostly wait for models. When the run is ended, what is done by then is still given, and what is
under way is left.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from tracegrade.model.errors import TraceGradeError
from tracegrade.suites.conversation import Ran
from tracegrade.suites.models.pace import Stopped
from tracegrade.suites.suite import SuiteCase

# A kill costs what is not stored yet: for each thread the unit that it runs, and one that waits to be stored.
_AHEAD = 2
_MOST_THREADS = 1000
_LOOK_EVERY_S = 0.1
# What is given is stored in a transaction, for which others wait: not more than so many in a second.
_GATHER_S = 0.05


@dataclass(frozen=True, slots=True)
class Unit:
    """What is asked again when it was not finished: one case of one model, once."""

    case: SuiteCase
    repetition: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one model is asked.

    ``run`` runs one unit, and raises `TraceGradeError` where no unit can be run; ``at_a_time`` units run at once.
    """

    name: str
    provider: str
    at_a_time: int
    units: Sequence[Unit]
    run: Callable[[Unit], Ran]


@dataclass(frozen=True, slots=True)
class UnitDone:
    """A unit that was run."""

    plan: Plan
    unit: Unit
    ran: Ran


@dataclass(frozen=True, slots=True)
class PlanDone:
    """All units of a plan were run; with a ``problem`` it was given up."""

    plan: Plan
    problem: TraceGradeError | None


class _Crashed:
    """What a thread could not foresee, to be raised where results are read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


Done: TypeAlias = UnitDone | PlanDone
_Results: TypeAlias = "queue.SimpleQueue[Done | _Crashed]"


def run_plans(plans: Sequence[Plan], stop: threading.Event) -> Iterator[list[Done]]:
    """Run all plans; gives what is done, as soon as it is, with all that is done by then.

    Args:
        plans: at most one for each model.
        stop: set by the caller, or another thread, to end it; set here when the caller goes no further.
    """
    results: _Results = queue.SimpleQueue()
    rooms = {plan.name: threading.Semaphore(_AHEAD * plan.at_a_time) for plan in plans}
    by_provider = groupby(sorted(plans, key=lambda plan: plan.provider), key=lambda plan: plan.provider)
    for provider, of_provider in by_provider:
        arguments = (list(of_provider), rooms, stop, results)
        threading.Thread(target=_one_by_one, args=arguments, name=f"suite {provider}", daemon=True).start()
    left = len(plans)
    given_s = 0.0
    try:
        while left:
            stop.wait(given_s + _GATHER_S - time.monotonic())
            if not (batch := _next_batch(results, stop)):
                return
            given_s = time.monotonic()
            done: list[Done] = []
            for item in batch:
                if isinstance(item, _Crashed):
                    raise item.error
                done.append(item)
                left -= isinstance(item, PlanDone)
            yield done
            for item in done:
                if isinstance(item, UnitDone):
                    rooms[item.plan.name].release()
    finally:
        stop.set()
        for room in rooms.values():  # who waits there sees that it is over
            room.release(_MOST_THREADS)


def _next_batch(results: _Results, stop: threading.Event) -> "list[Done | _Crashed]":
    """All that is done by now, at least one; nothing when the run is ended and all was given."""
    batch: list[Done | _Crashed] = []
    while not batch:
        is_over = stop.is_set()
        with suppress(queue.Empty):
            batch.append(results.get(timeout=0 if is_over else _LOOK_EVERY_S))
        if is_over:
            break
    while not results.empty():
        batch.append(results.get())
    return batch


def _one_by_one(
    plans: Sequence[Plan], rooms: Mapping[str, threading.Semaphore], stop: threading.Event, results: _Results
) -> None:
    """The plans of one provider, one after another."""
    for plan in plans:
        if stop.is_set():
            return
        running = _Running(plan, rooms[plan.name], stop, results)
        threads = [
            threading.Thread(target=running.work, name=f"suite {plan.name} {number}", daemon=True)
            for number in range(min(plan.at_a_time, len(plan.units)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not stop.is_set():
            results.put(PlanDone(plan, running.problem))


class _Running:
    """One plan while its units are run by several threads."""

    def __init__(self, plan: Plan, room: threading.Semaphore, stop: threading.Event, results: _Results) -> None:
        self._room = room
        self.problem: TraceGradeError | None = None
        self._plan = plan
        self._stop = stop
        self._results = results
        self._lock = threading.Lock()
        self._left = iter(plan.units)

    def work(self) -> None:
        """Run units until none is left, or no unit can be run."""
        try:
            while True:
                self._room.acquire()
                with self._lock:
                    unit = next(self._left, None)
                if unit is None or self.problem is not None or self._stop.is_set():
                    self._room.release()
                    return
                self._results.put(UnitDone(self._plan, unit, self._plan.run(unit)))
        except TraceGradeError as error:
            self.problem = self.problem or error
        except Stopped:
            return
        except Exception as error:  # a bug: raised in the thread that reads results
            self._results.put(_Crashed(error))
            self._stop.set()
