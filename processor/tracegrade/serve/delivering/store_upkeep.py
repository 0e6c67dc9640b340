"""What the judge process does to its store besides storing results: it keeps texts of rules and deletes old traces."""

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tracegrade.deliver.consumer import wait
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.delete import cut_log
from tracegrade.store.jobs import delete_old_events
from tracegrade.store.leader import Leader
from tracegrade.store.open import one_at_a_time
from tracegrade.store.retention import delete_old_values, delete_older, delete_older_of
from tracegrade.store.rule_texts import save_rule_texts

KEEP_RULE_TEXTS_EVERY_S = 1.0
RETENTION_EVERY_S = 60.0
_WHOLE_EVERY_S = 86400.0
_OVERLAP_NS = 3600 * 10**9

logger = logging.getLogger(__name__)


async def keep_rule_texts(store: Engine, rules: RuleReload, stop: asyncio.Event) -> None:
    """Until `stop` is set, store the texts of rules, so that those that results name can be read if files change.

    Every process stores those of its own rules: for a time after a change, others judge by other texts.
    """
    kept = ""
    while not await wait(stop, KEEP_RULE_TEXTS_EVERY_S):
        rule_set = rules.in_force
        if rule_set.hash == kept:
            continue
        try:
            await asyncio.to_thread(_save_rule_texts, store, rule_set)
            kept = rule_set.hash
        except SQLAlchemyError as error:
            logger.warning("the rules' texts are not stored, trying again: %s", error)


async def delete_old_traces(
    store: Engine, retention_s: float, of_tenants: Mapping[str, float], leader: Leader, stop: asyncio.Event
) -> None:
    """Until `stop` is set, delete old traces, a thousand at a time, so that the writer never waits long.

    And what happened in jobs that ended long ago. `of_tenants` are tenants whose traces stay for less time, in s: once
    a day all of theirs are looked at, otherwise those that became old since. Only while this process leads.
    """
    retention_ns = round(retention_s * 1e9)
    deleted_to: dict[str, int] = {}
    whole_due_s = 0.0
    while not await wait(stop, RETENTION_EVERY_S):
        if not leader.leads:
            continue
        before_ns = time.time_ns() - retention_ns
        while not stop.is_set() and await asyncio.to_thread(delete_older, store, before_ns) > 0:
            await asyncio.sleep(0.1)
        if of_tenants and time.monotonic() >= whole_due_s:
            whole_due_s, deleted_to = time.monotonic() + _WHOLE_EVERY_S, {}
        for tenant, kept_s in of_tenants.items():
            before_ns, since_ns = time.time_ns() - round(kept_s * 1e9), deleted_to.get(tenant)
            deleting = partial(delete_older_of, store, tenant, since_ns, before_ns)
            while not stop.is_set() and await asyncio.to_thread(deleting) > 0:
                await asyncio.sleep(0.1)
            deleted_to[tenant] = before_ns - _OVERLAP_NS
        await asyncio.to_thread(_delete_old_events, store)


async def keep_values_young(store: Engine, values_retention_s: float, leader: Leader, stop: asyncio.Event) -> None:
    """Until `stop` is set, delete the values of traces that are older than they may be, while this process leads.

    Once a day it looks at all of them: what was judged long after it came is old when it is stored.
    """
    retention_ns = round(values_retention_s * 1e9)
    since_ns: int | None = None
    whole_due_s = 0.0
    while not await wait(stop, RETENTION_EVERY_S):
        if not leader.leads:
            continue
        if time.monotonic() >= whole_due_s:
            since_ns, whole_due_s = None, time.monotonic() + _WHOLE_EVERY_S
        before_ns, after = time.time_ns() - retention_ns, 0
        while not stop.is_set():
            found = await asyncio.to_thread(delete_old_values, store, since_ns, before_ns, after)
            if found is None:
                since_ns = before_ns
                if after:
                    await asyncio.to_thread(_cut_log, store)
                break
            after = found
            await asyncio.sleep(0.1)


def _cut_log(store: Engine) -> None:
    try:
        cut_log(store)
    except OperationalError as error:  # readers held it for too long; SQLite writes over it in time
        logger.info("deleted values are in the store's log for a while: %s", error)


def _delete_old_events(store: Engine) -> None:
    with store.begin() as connection:
        one_at_a_time(connection)
        delete_old_events(connection, time.time_ns())


def _save_rule_texts(store: Engine, rule_set: RuleSet) -> None:
    with store.begin() as connection:
        one_at_a_time(connection)
        save_rule_texts(connection, rule_set, time.time_ns())
