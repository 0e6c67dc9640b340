"""Runs as they are when their first result is stored, for tests of whatever stores or reads results of runs."""

from typing import Any

from sqlalchemy import Engine

from build.judged_traces import START_NS
from tracegrade.store.runs import Experiment, Run, save_experiment, save_run


def run_of(name: str = "tuning/1", **changes: Any) -> Run:
    known: dict[str, Any] = {
        "tenant": "default",
        "experiment": "tuning",
        "begun_ns": START_NS,
        "written_ns": START_NS,
        "rule_set_hash": "rules",
        "judgement_hash": "judgement",
        "settings_hash": "settings",
        "rules": {"checkout-order": {"hash": "0123456789abcdef", "incomplete": "leave_out"}},
        "source": "journal",
        "selection": {},
        "tracegrade": "0.1.0",
        "labels": {},
        "releases": [],
    }
    return Run(name=name, **known | changes)


def begin(engine: Engine, *names: str, **changes: Any) -> None:
    """Begin runs of these names."""
    for name in names:
        run = run_of(name, **changes)
        with engine.begin() as connection:
            save_run(connection, run)
            save_experiment(connection, Experiment(run.tenant, run.experiment, run.begun_ns, None, 0))
