"""Runs of experiments over the shop's orders, stored as ``replay --experiment`` stores them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from build import store_with
from build.shop import GOOD, HOUR, SECOND, UNFINISHED, WRONG_ORDER, WRONG_QUANTITY, Call, fill, order
from build.stored_runs import run_of
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.runs import Experiment, save_experiment, save_run, stored_experiment

_TRIES = 60


def store_run(
    folder: Path, rules: RuleSet, name: str, tries: Sequence[list[Call]], at_ns: int, first: int = 1, **known: Any
) -> None:
    """A run of orders, numbered from `first`, with the calls of `tries`; `known` are fields of the run."""
    release = known.get("releases", ["1.5.0"])[0]
    orders = (
        (order(number, at_ns + number * SECOND, release, calls), None) for number, calls in enumerate(tries, first)
    )
    engine = open_store(store_with(folder))
    of_rules = {
        rule.id: {"hash": rule.hash, "level": rule.level, "status": rule.status, "incomplete": rule.incomplete}
        for rule in rules.rules
    }
    made = {"state": "complete", "experiment": name.rpartition("/")[0], "releases": [release], "rules": of_rules}
    run = run_of(name, **{"begun_ns": at_ns, "written_ns": at_ns + 60 * SECOND, **made, **known})
    with engine.begin() as connection:
        save_run(connection, replace(run, state="incomplete"))
        _begin(connection, run.tenant, run.experiment, at_ns)
    fill(folder, orders, rules, name)
    with engine.begin() as connection:
        save_run(connection, run)
    engine.dispose()


def store_experiments(folder: Path, rules: RuleSet, now_ns: int) -> None:
    """Twelve runs of one experiment, one of them broken off; one run of another; and one without any."""
    bad = [18, 14, 15, 11, 11, 9, 12, 7, 8, 5, 5, 6]
    prompts = ["Say what you do", "Check first", "Check first, briefly", "One order at a time", "Never guess"]
    for number, wrong in enumerate(bad, 1):
        tries = [_bad(place) if place < wrong else GOOD for place in range(_TRIES)]
        known: dict[str, Any] = {"labels": {"prompt": prompts[number % 5], "model": "gpt-4o"}, "source": "orders.binpb"}
        if number == 9:
            known |= {"state": "incomplete"}
        at_ns = now_ns - (13 - number) * HOUR
        store_run(folder, rules, f"prompts/{number}", tries, at_ns, git_revision="a5c495dfe1d6-dirty", **known)
    store_run(folder, rules, "smaller-model/first-try", [GOOD, WRONG_ORDER], now_ns - HOUR, releases=["1.6.0-rc1"])
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        _begin(connection, "default", "emptied", now_ns)
    engine.dispose()


def _bad(place: int) -> list[Call]:
    return (WRONG_ORDER, WRONG_QUANTITY, UNFINISHED)[place % 3]


def _begin(connection: Connection, tenant: str, experiment: str, at_ns: int) -> None:
    if stored_experiment(connection, tenant, experiment) is None:
        save_experiment(connection, Experiment(tenant, experiment, at_ns, None, 0))
