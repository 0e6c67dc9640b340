"""What people change of stored runs and experiments: the pinned baseline, labels, and whether they are there at all."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from tracegrade.document.problem import did_you_mean
from tracegrade.history.runs.experiments import ScoredRun, Timeline, known_experiment, known_run, timeline
from tracegrade.model.errors import NotPossible
from tracegrade.part import offered
from tracegrade.store.open import changing_store, open_store
from tracegrade.store.runs import (
    LOST_AFTER_S,
    Run,
    delete_experiment,
    delete_run,
    pin_baseline,
    save_labels,
    seen_writing,
    stored_entries,
    stored_experiments,
    stored_runs,
)

MOST_LABELS = 100
LONGEST_KEY = 200
LONGEST_VALUE = 1000


@dataclass(frozen=True, slots=True)
class Deletion:
    """How many runs were deleted, with how many traces and sessions, and how many runs and evals were kept."""

    runs: int = 0
    traces: int = 0
    runs_kept: int = 0
    evals_kept: int = 0


def labels_of(written: Iterable[str]) -> dict[str, str]:
    """The labels that people write as ``KEY=VALUE``.

    Raises:
        ValueError: one is not of that form, or a key comes twice.
    """
    labels: dict[str, str] = {}
    for item in written:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"expected KEY=VALUE such as model=m-2, found {item!r}")
        if key in labels:
            raise ValueError(f"{key!r} is given twice, as {labels[key]!r} and {value!r}")
        labels[key] = value
    return labels


def pin(store_url: str, tenant: str, experiment: str, run: str | None) -> None:
    """Pin `run` as the baseline of an experiment; None pins none.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: the run is not of the experiment, not complete, or without a score.
    """
    with changing_store(store_url) as connection:
        found = timeline(connection, known_experiment(connection, tenant, experiment))
        if run is not None:
            _check_pinnable(found, run)
        pin_baseline(connection, tenant, experiment, run)


def label(store_url: str, tenant: str, run: str, labels: Mapping[str, str]) -> None:
    """Give a run these labels in place of those it has.

    Raises:
        NotFound: there is no such run.
        NotPossible: it is still being written, which would write its labels again; or too many or too long labels.
    """
    if len(labels) > MOST_LABELS:
        raise NotPossible(f"expected at most {MOST_LABELS} labels, found {len(labels)}")
    for key, value in labels.items():
        if not 0 < len(key.strip()) <= LONGEST_KEY or len(value) > LONGEST_VALUE:
            expected = f"a key of at most {LONGEST_KEY} and a value of at most {LONGEST_VALUE} characters"
            raise NotPossible(f"expected {expected}, found {key[:LONGEST_KEY]!r}={value[:LONGEST_KEY]!r}")
        if not (key + value).isprintable():
            raise NotPossible(f"expected a label without line breaks and the like, found {key!r}={value!r}")
    with changing_store(store_url) as connection:
        state = known_run(connection, tenant, run).state
        if state != "complete":
            raise NotPossible(f"{run} is {state}: only labels of a complete run can be changed")
        save_labels(connection, tenant, run, labels)


def delete_stored_run(store_url: str, tenant: str, run: str, *, force: bool = False) -> int:
    """Delete a run with all its results. Returns how many traces and sessions went.

    Raises:
        NotFound: there is no such run.
        NotPossible: a job or a process writes it; or, without `force`, another experiment has it pinned.
    """
    with _opened(store_url) as engine:
        with engine.connect() as connection:
            found = known_run(connection, tenant, run)
            check_unwritten(connection, tenant, f"run {run}", [found])
            if not force:
                check_unpinned(connection, tenant, [run], (), but=found.experiment)
        return delete_run(engine, tenant, run)


def delete_with_runs(store_url: str, tenant: str, name: str, *, force: bool = False) -> Deletion:
    """Delete an experiment with its entries, its runs and their traces; where it is interrupted, again does the rest.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: a run of it is being written; or, without `force`, another experiment has one pinned.
    """
    with _opened(store_url) as engine:
        with engine.connect() as connection:
            known_experiment(connection, tenant, name)
            runs = stored_runs(connection, tenant, name)
            check_deletable(connection, tenant, name, runs, () if force else runs, force)
        return Deletion(runs=len(runs), traces=delete_experiment(engine, tenant, name))


def check_deletable(
    connection: Connection, tenant: str, name: str, runs: Sequence[Run], deleted: Sequence[Run], force: bool
) -> None:
    """Check that nothing writes an experiment and that, without `force`, no other has what is `deleted` of it pinned.

    Raises:
        NotPossible: something does, or one has.
    """
    check_unwritten(connection, tenant, f"experiment {name}", runs, name)
    if not force:
        entries = [entry.id for entry in stored_entries(connection, tenant, name)]
        check_unpinned(connection, tenant, [run.name for run in deleted], entries, but=name)


def check_unwritten(
    connection: Connection, tenant: str, what: str, runs: Sequence[Run], experiment: str | None = None
) -> None:
    """Check that runs can be deleted, and with them the `experiment` that holds them all, if it is given.

    Raises:
        NotPossible: a process that was heard of lately writes `what`, or a part says so of a job of its own.
    """
    for check in offered("check_unwritten"):
        check(connection, tenant, what, {run.name for run in runs}, experiment)
    now_ns = time.time_ns()
    for run in runs:
        seen_ns = seen_writing(connection, tenant, run.name) if run.state == "incomplete" and run.job is None else None
        if seen_ns is not None and abs(now_ns - seen_ns) < LOST_AFTER_S * 1e9:
            raise NotPossible(
                f"{what} cannot be deleted now: a process writes run {run.name}; wait for its end, or end it. One that "
                f"was killed is taken as ended after {LOST_AFTER_S:.0f} s"
            )


def check_unpinned(
    connection: Connection, tenant: str, runs: Collection[str], entries: Collection[str], *, but: str
) -> None:
    """Check that no experiment `but` one has one of these runs or entries pinned as its baseline.

    Raises:
        NotPossible: one has.
    """
    for other in stored_experiments(connection, tenant):
        pinned = other.baseline if other.baseline in runs else None
        if other.baseline_entry in entries:
            pinned = other.baseline_entry
        if pinned is not None and other.name != but:
            raise NotPossible(
                f"the experiment {other.name} has {pinned} pinned as its baseline: pin another there first, or delete "
                "it all the same: ?force=true, or --force"
            )


def _check_pinnable(found: Timeline, run: str) -> None:
    of_name = {standing.scored.run.name: standing.scored for standing in found.standings}
    if run not in of_name:
        hint = did_you_mean(run, of_name) or f"; 'tracegrade experiments timeline {found.experiment.name}' shows them"
        raise NotPossible(f"{found.experiment.name} has no run {run!r}{hint}")
    check_measurable(of_name[run])


def check_measurable(scored: ScoredRun) -> None:
    """Raise `NotPossible` for a run that is not complete, or has no score; says what ended one that failed."""
    if scored.run.state != "complete" or scored.score is None:
        why = f"is {scored.run.state}" if scored.run.state != "complete" else "has no score"
        if scored.run.problem:
            why += f" ({scored.run.problem})"
        raise NotPossible(f"{scored.run.name} {why}: nothing can be measured against it")


@contextmanager
def _opened(store_url: str) -> Iterator[Engine]:
    engine = open_store(store_url)
    try:
        yield engine
    finally:
        engine.dispose()
