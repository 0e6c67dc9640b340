"""What happens in jobs, as it happens: for streams of server-sent events and for WebSockets.

One look at the store every quarter of a second serves all streams, however many there are; a stream reads the events
of its own jobs when that look found new ones. Each reads at the pace of its reader: nobody waits for one that is slow.
The store's events hold nothing of a trace; what a model called is filled in from the trace that is stored, as long as
it is, for callers who may see values.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.store.errors import StoreError
from tracegrade.suites.runs.results import CaseResult
from tracegrade.suites.runs.run import stored_unit
from tracegrade.suites.store.jobs import UNFINISHED, Event, events_after, newest_events, stored_job
from tracegrade.web.sources import Sources

LOOK_EVERY_S = 0.25

_A_BATCH = 100
_SHARED_FOR_S = 5.0  # what one stream read of a trace, others need not read again; a deletion is not outlived for long
_MOST_SHARED = 1000
_RECENT_NS = 3600 * 10**9  # jobs that ended within an hour are looked at, too

logger = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str]
"""The tenant and the id of a job."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a stream tells: of the jobs of a tenant, or of one of them; with values or without."""

    tenant: str
    job: str | None
    values: bool


class JobEvents:
    """What streams read."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._newest: dict[Key, int] = {}
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._shared: dict[tuple[str, str, int], tuple[float, dict[str, Any]]] = {}

    def begin(self, watched: Watched, after: int | None) -> dict[Key, int]:
        """The last event of each job that a stream leaves out.

        Args:
            watched: what the stream tells of.
            after: of one job, the number of the last event that its reader has; None: all of one job are told, and of
                all jobs those that come from now on.
        """
        if watched.job is not None:
            return {(watched.tenant, watched.job): after or 0}
        with self._sources.store() as connection:
            return newest_events(connection, watched.tenant, time.time_ns() - _RECENT_NS)

    async def told(
        self, watched: Watched, seen: dict[Key, int], goes_on: Callable[[], bool]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """What happens after `seen`, until it `goes_on` no longer, or the one job that is watched has ended.

        Gives an empty list several times a second while nothing happens. Each event is an object with ``type``,
        ``job_id``, ``number`` and ``at_ns``, beside its fields.
        """
        newest: Mapping[Key, int] | None = None  # at first, it is read whatever there is
        while goes_on():
            found: list[dict[str, Any]] = []
            more = False
            if (keys := _new(watched, seen, newest)) != []:
                try:
                    found, last, has_ended = await asyncio.to_thread(self._next_events, watched, seen, keys)
                except (StoreError, SQLAlchemyError) as error:  # unavailable: it may come
                    logger.debug("what happens in jobs is not known: %s", error)
                else:
                    more = any(last[key] - seen.get(key, 0) >= _A_BATCH for key in last)
                    seen |= last
                    if found:
                        yield found
                    if has_ended and not more:
                        return
            if not found:
                yield []
            if not more:
                newest = await self._next_look()

    async def _next_look(self) -> Mapping[Key, int]:
        """What the next look at the store finds, or the last one if that takes long."""
        self._waiting += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._poll())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._looked.wait(), 2 * LOOK_EVERY_S)
            return self._newest
        finally:
            self._waiting -= 1

    async def _poll(self) -> None:
        while self._waiting:
            try:
                self._newest = await asyncio.to_thread(self._read_newest)
                self._forget_old()
            except (StoreError, SQLAlchemyError) as error:
                logger.debug("what happens in jobs is not known: %s", error)
            self._looked.set()
            self._looked = asyncio.Event()
            await asyncio.sleep(LOOK_EVERY_S)
        self._shared = {}

    def _forget_old(self) -> None:
        now_s = time.monotonic()
        known = list(self._shared.items())  # at once: threads add to it
        self._shared = {key: shared for key, shared in known if now_s - shared[0] <= _SHARED_FOR_S}

    def _read_newest(self) -> dict[Key, int]:
        with self._sources.store() as connection:
            return newest_events(connection, None, time.time_ns() - _RECENT_NS)

    def _next_events(
        self, watched: Watched, seen: Mapping[Key, int], keys: Sequence[Key]
    ) -> tuple[list[dict[str, Any]], dict[Key, int], bool]:
        """The next events of these jobs, as they are sent; the last of each; and whether the one job has ended."""
        found: list[Event] = []
        has_ended = False
        with self._sources.store() as connection:
            for key in keys:
                found += events_after(connection, *key, seen.get(key, 0), _A_BATCH)
                if watched.job is not None:
                    job = stored_job(connection, *key)
                    has_ended = job is None or job.state not in UNFINISHED
            found.sort(key=lambda event: event.at_ns)  # those of one job stay in order
            sent = [self._sent(connection, event, watched.values) for event in found]
        return sent, {(event.tenant, event.job): event.number for event in found}, has_ended

    def _sent(self, connection: Connection, event: Event, values: bool) -> dict[str, Any]:
        """An event as it is sent; with `values`, a result has what the model called, if that is still stored."""
        fields: dict[str, Any] = {**event.fields, "type": event.name, "number": event.number, "at_ns": event.at_ns}
        if not values or event.name != "tool_eval_result":
            return fields
        key, now_s = (event.tenant, event.job, event.number), time.monotonic()
        read_s, found = self._shared.get(key, (0.0, {}))
        if not found or now_s - read_s > _SHARED_FOR_S:
            unit = (str(fields.get("run")), str(fields.get("case_id")), int(fields.get("repetition") or 0))
            result = stored_unit(connection, event.tenant, *unit)
            found = {} if result is None else values_of(result)
            if len(self._shared) >= _MOST_SHARED:
                self._shared = {}
            self._shared[key] = now_s, found
        return fields | found


def _new(watched: Watched, seen: Mapping[Key, int], newest: Mapping[Key, int] | None) -> list[Key]:
    """The jobs of which there may be more than `seen`."""
    if watched.job is not None:
        key = (watched.tenant, watched.job)
        is_new = newest is None or key not in newest or newest[key] > seen.get(key, 0)
        return [key] if is_new else []
    return [key for key, number in (newest or {}).items() if key[0] == watched.tenant and number > seen.get(key, 0)]


def values_of(result: CaseResult) -> dict[str, Any]:
    """What a result has beside its scores. The call is that which is scored: of several turns, the last."""
    is_chain = result.number("completion") is not None
    call = (result.calls[-1 if is_chain else 0]) if result.calls else {"name": None, "arguments": None}
    expected = result.expected or {}
    return {
        "trace_id": result.trace_id,
        "prompt": result.prompt,
        "expected_tool": expected.get("expected_tool"),
        "expected_params": expected.get("expected_params"),
        "actual_tool": call["name"],
        "actual_params": call["arguments"],
        "calls": result.calls,
        "explanation": result.explanation,
        "latency_ms": round(result.latency_s * 1000),
        "notes": result.notes,
    }
