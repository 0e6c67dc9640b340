"""What the judge process does to its store besides storing results: it keeps texts of rules and deletes old traces."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from sqlalchemy import Engine

from tracegrade.deliver.consumer import wait
from tracegrade.part import offered
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.delete import cut_log, delete_old_values, delete_older, delete_older_of
from tracegrade.store.errors import STORE_ERRORS, cause_of
from tracegrade.store.open import one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.several_processes import Leader
from tracegrade.telemetry.conditions import Conditions

KEEP_RULE_TEXTS_EVERY_S = 1.0
RETENTION_EVERY_S = 60.0
_WHOLE_EVERY_S = 86400.0
_OVERLAP_NS = 3600 * 10**9
_AGAIN_AFTER_S = 5.0

logger = logging.getLogger(__name__)


class StoreUpkeep:
    """Works on the store again and again. What fails is tried again: no error of the store ends this process."""

    def __init__(self, store: Engine, leader: Leader, conditions: Conditions, stop: asyncio.Event) -> None:
        """Prepare; every work goes on until `stop` is set. Old rows are deleted only while this process leads."""
        self._store = store
        self._leader = leader
        self._conditions = conditions
        self._stop = stop

    async def keep_rule_texts(self, rules: RuleReload) -> None:
        """Store the texts of rules, so that those that results name can be read if files change.

        Every process stores those of its own rules: for a time after a change, others judge by other texts.
        """
        kept = ""

        async def keep() -> None:
            nonlocal kept
            rule_set = rules.in_force
            if rule_set.hash != kept:
                await asyncio.to_thread(_save_rule_texts, self._store, rule_set)
                kept = rule_set.hash

        await self._repeat(KEEP_RULE_TEXTS_EVERY_S, "texts of rules", keep)

    async def delete_old_traces(self, retention_s: float, of_tenants: Mapping[str, float]) -> None:
        """Delete old traces, a thousand at a time, so that the writer never waits long; the disk gets the space back.

        And what parts keep for a time. `of_tenants` are tenants whose traces stay for less time, in s:
        once a day all of theirs are looked at, otherwise those that became old since.
        """
        retention_ns = round(retention_s * 1e9)
        deleted_to: dict[str, int] = {}
        whole_due_s = 0.0

        async def delete() -> None:
            nonlocal whole_due_s
            await self._while_any(partial(delete_older, self._store, time.time_ns() - retention_ns))
            if of_tenants and time.monotonic() >= whole_due_s:
                whole_due_s = time.monotonic() + _WHOLE_EVERY_S
                deleted_to.clear()
            for tenant, kept_s in of_tenants.items():
                before_ns, since_ns = time.time_ns() - round(kept_s * 1e9), deleted_to.get(tenant)
                await self._while_any(partial(delete_older_of, self._store, tenant, since_ns, before_ns))
                deleted_to[tenant] = before_ns - _OVERLAP_NS
            await asyncio.to_thread(_delete_old_of_parts, self._store)
            await self._while_any(partial(database(self._store).give_back, self._store))

        await self._repeat(RETENTION_EVERY_S, "retention", delete, only_leader=True)

    async def keep_values_young(self, values_retention_s: float) -> None:
        """Delete the values of traces that are older than they may be.

        Once a day it looks at all of them: what was judged long after it came is old when it is stored.
        """
        retention_ns = round(values_retention_s * 1e9)
        since_ns: int | None = None
        whole_due_s = 0.0

        async def delete() -> None:
            nonlocal since_ns, whole_due_s
            if time.monotonic() >= whole_due_s:
                since_ns, whole_due_s = None, time.monotonic() + _WHOLE_EVERY_S
            before_ns, after = time.time_ns() - retention_ns, 0
            while not self._stop.is_set():
                found = await asyncio.to_thread(delete_old_values, self._store, since_ns, before_ns, after)
                if found is None:
                    since_ns = before_ns
                    if after:
                        await asyncio.to_thread(_cut_log, self._store)
                    break
                after = found
                await asyncio.sleep(0.1)

        await self._repeat(RETENTION_EVERY_S, "retention of values", delete, only_leader=True)

    async def _repeat(
        self, every_s: float, what: str, work: Callable[[], Awaitable[None]], *, only_leader: bool = False
    ) -> None:
        """Do `work` every so many seconds; the condition ``store_unavailable`` holds while the store refuses it."""
        due_s = every_s
        while not await wait(self._stop, due_s):
            due_s = every_s
            if only_leader and not self._leader.leads:
                continue
            try:
                await work()
            except STORE_ERRORS as error:
                self._conditions.begin("store_unavailable", f"{what}: {cause_of(error)}; tried again", what)
                due_s = min(every_s, _AGAIN_AFTER_S)
            else:
                self._conditions.end("store_unavailable", what)

    async def _while_any(self, delete: Callable[[], int]) -> None:
        while not self._stop.is_set() and await asyncio.to_thread(delete) > 0:
            await asyncio.sleep(0.1)


def _cut_log(store: Engine) -> None:
    try:
        cut_log(store)
    except STORE_ERRORS as error:  # readers held it for too long; SQLite writes over it in time
        logger.info("deleted values are in the store's log for a while: %s", error)


def _delete_old_of_parts(store: Engine) -> None:
    with store.begin() as connection:
        one_at_a_time(connection)
        for delete_old in offered("delete_old"):
            delete_old(connection, time.time_ns())


def _save_rule_texts(store: Engine, rule_set: RuleSet) -> None:
    with store.begin() as connection:
        one_at_a_time(connection)
        save_rule_texts(connection, rule_set, time.time_ns())
