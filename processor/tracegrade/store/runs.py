"""Runs, experiments and their reported entries, by tenant and name; the results of a run are in the other tables.

Every function names the tenant: it sees and changes that tenant's rows alone. Entries are what other tools found in an
experiment, and reported, in its timeline; deleting the experiment deletes them.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, or_, select, update

from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import new_id, put, record, records
from tracegrade.store.index import traces_of_run
from tracegrade.store.open import one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.schema import WHOLE_RUN, counts, experiment_entries, experiments, runs, series

ReportedKind: TypeAlias = Literal["param_tune", "prompt_tune", "judge"]
Kind: TypeAlias = Literal["param_tune", "prompt_tune", "judge", "eval"]

TUNES: tuple[Kind, ...] = ("param_tune", "prompt_tune")
PROMOTED: Kind = "eval"
LOST_AFTER_S = 30.0
"""A process that writes a run, or does a job, and was not heard of for this long has ended, or hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; each field is the column of ``experiment_entries`` that has its name. Times are ns since 1970 UTC.

    ``configuration`` gave the ``score``, 0 to 1. An `eval` is the best result of the tune ``promoted_from``.
    """

    tenant: str
    experiment: str
    id: str
    kind: Kind
    at_ns: int
    score: float | None
    configuration: Mapping[str, JsonValue]
    promoted_from: str | None = None


def stored_entries(connection: Connection, tenant: str, experiment: str) -> list[Entry]:
    """The entries of an experiment in the order in which they were reported; one that was promoted after its tune."""
    known = experiment_entries.c
    query = select(experiment_entries).where(known.tenant == tenant, known.experiment == experiment)
    found = records(connection, Entry, query)
    return sorted(found, key=lambda entry: (entry.at_ns, entry.promoted_from or entry.id, entry.promoted_from or ""))


def promoted_entry(connection: Connection, tenant: str, id_: str) -> Entry | None:
    """The `eval` with this id that was promoted from a tune."""
    known = experiment_entries.c
    query = select(experiment_entries).where(known.tenant == tenant, known.id == id_, known.kind == PROMOTED)
    return record(connection, Entry, query)


def entry_count(connection: Connection, tenant: str, experiment: str) -> int:
    """How many entries an experiment has."""
    known = experiment_entries.c
    query = select(func.count()).where(known.tenant == tenant, known.experiment == experiment)
    return int(connection.execute(query).scalar_one())


def add_entry(connection: Connection, entry: Entry) -> None:
    """Store an entry."""
    connection.execute(insert(experiment_entries).values(**asdict(entry)))


State: TypeAlias = Literal["incomplete", "failed", "complete", "deleting"]

_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run; each field is the column of ``runs`` that has its name. Times are ns since 1970 UTC.

    ``state`` is ``complete`` when all is stored. Before, it is ``incomplete``: it is being written, or that broke off
    without a word; ``failed``: ``problem`` says what ended it; ``deleting``: its deletion is under way or broke off.
    """

    tenant: str
    name: str
    experiment: str
    begun_ns: int
    written_ns: int
    rule_set_hash: str
    judgement_hash: str
    settings_hash: str
    rules: Mapping[str, Mapping[str, str]]
    source: str
    selection: Mapping[str, Any]
    tracegrade: str
    git_revision: str | None = None
    labels: Mapping[str, str]
    state: State = "incomplete"
    problem: str = ""
    gate: str | None = None
    releases: list[str]
    prompt_hash: str | None = None
    prompt_count: int = 0
    emptied: bool = False

    @property
    def suite(self) -> str | None:
        """The id of the stored suite whose cases it ran; None where it ran a file, or no suite."""
        return suite_of_source(self.source)

    @property
    def job(self) -> str | None:
        """The id of the job that writes it; None where none does."""
        job = self.selection.get("job")
        return job if isinstance(job, str) else None


def suite_of_source(source: str) -> str | None:
    """The id of the stored suite that a run names as its source; None where it names a file, or the journal."""
    kind, _, id_ = source.partition(":")
    return id_ if kind == "suite" else None


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment; ``baseline`` is the run that is pinned, ``suite`` the stored suite it is about; None without.

    ``description`` is text, perhaps empty, where a person made the experiment; None where its first run did. ``own``:
    evals of ``suite`` that name no experiment go into it. ``baseline_entry`` is the entry that is pinned in place of a
    run. ``baseline_note`` says what became of the baseline that was pinned, if it was deleted.
    """

    tenant: str
    name: str
    begun_ns: int
    baseline: str | None
    last_number: int
    suite: str | None = None
    description: str | None = None
    id: str = field(default_factory=new_id)
    own: bool = False
    baseline_entry: str | None = None
    baseline_note: str | None = None


_KNOWN = [runs.c[field.name] for field in fields(Run)]


def stored_run(connection: Connection, tenant: str, name: str) -> Run | None:
    """The run of this name."""
    return record(connection, Run, select(*_KNOWN).where(*_is_run(tenant, name)))


def sources_of(connection: Connection, name: str) -> set[str]:
    """What the runs of this name were judged from, of all tenants."""
    return set(connection.execute(select(runs.c.source).where(runs.c.name == name)).scalars())


def stored_runs(connection: Connection, tenant: str, experiment: str | None = None) -> list[Run]:
    """The runs of an experiment, or all runs, in the order in which they were begun."""
    query = select(*_KNOWN).where(runs.c.tenant == tenant).order_by(runs.c.begun_ns, runs.c.name)
    if experiment is not None:
        query = query.where(runs.c.experiment == experiment)
    return records(connection, Run, query)


def runs_of_eval(connection: Connection, tenant: str, id_: str) -> list[Run]:
    """The runs of a job, or the run of this name that no job made, in the order in which they were begun."""
    is_own = or_(runs.c.job == id_, and_(runs.c.job.is_(None), runs.c.name == id_))
    query = select(*_KNOWN).where(runs.c.tenant == tenant, is_own).order_by(runs.c.begun_ns, runs.c.name)
    return records(connection, Run, query)


def run_names(connection: Connection) -> list[str]:
    """The names of all runs of all tenants, in order."""
    return list(connection.execute(select(runs.c.name).distinct().order_by(runs.c.name)).scalars())


def stored_experiments(
    connection: Connection, tenant: str, *, limit: int | None = None, since_ns: int = 0, offset: int = 0
) -> list[Experiment]:
    """Experiments begun at `since_ns` or later but the first `offset`, in the order in which they were begun."""
    query = select(experiments).where(experiments.c.tenant == tenant, experiments.c.begun_ns >= since_ns)
    query = query.order_by(experiments.c.begun_ns, experiments.c.name).limit(limit).offset(offset)
    return records(connection, Experiment, query)


def stored_experiment(connection: Connection, tenant: str, name: str) -> Experiment | None:
    """The experiment of this name."""
    return record(connection, Experiment, select(experiments).where(*_is_experiment(tenant, name)))


def experiment_with_id(connection: Connection, tenant: str, id_: str) -> Experiment | None:
    """The experiment with this id."""
    own = (experiments.c.tenant == tenant, experiments.c.id == id_)
    return record(connection, Experiment, select(experiments).where(*own))


def own_experiment(connection: Connection, tenant: str, suite: str) -> Experiment | None:
    """The experiment into which evals of a suite go that name none; None before the first of them."""
    own = (experiments.c.tenant == tenant, experiments.c.suite == suite, experiments.c.own)
    return record(connection, Experiment, select(experiments).where(*own).order_by(experiments.c.begun_ns))


def save_run(connection: Connection, run: Run) -> None:
    """Store what is known of `run`, in place of what was known of it."""
    put(connection, runs, {**asdict(run), "job": run.job})


def save_experiment(connection: Connection, experiment: Experiment) -> None:
    """Store `experiment`, in place of what was known of it."""
    put(connection, experiments, asdict(experiment))


def rename_experiment(connection: Connection, tenant: str, name: str, new_name: str) -> None:
    """Give an experiment another name, which none has; its runs keep theirs."""
    connection.execute(
        update(runs).where(runs.c.tenant == tenant, runs.c.experiment == name).values(experiment=new_name)
    )
    connection.execute(update(experiment_entries).where(*_of_experiment(tenant, name)).values(experiment=new_name))
    connection.execute(update(experiments).where(*_is_experiment(tenant, name)).values(name=new_name))


def pin_baseline(
    connection: Connection, tenant: str, experiment: str, run: str | None, entry: str | None = None
) -> None:
    """Pin a run, or an entry, as the baseline of an experiment; None pins none.

    What is said of one that was deleted stays until another is pinned.
    """
    values: dict[str, Any] = {"baseline": run, "baseline_entry": entry}
    if run is not None or entry is not None:
        values["baseline_note"] = None
    connection.execute(update(experiments).where(*_is_experiment(tenant, experiment)).values(**values))


def note_writing(connection: Connection, tenant: str, name: str, now_ns: int | None) -> None:
    """Note that a process writes a run now, with None that none does any more."""
    connection.execute(update(runs).where(*_is_run(tenant, name)).values(seen_ns=now_ns))


def seen_writing(connection: Connection, tenant: str, name: str) -> int | None:
    """When the process that writes a run was last heard of, ns since 1970 UTC; None where none writes it."""
    return connection.execute(select(runs.c.seen_ns).where(*_is_run(tenant, name))).scalar_one_or_none()


def move_runs(connection: Connection, tenant: str, names: Collection[str], experiment: str) -> None:
    """Put runs into another experiment; they keep their names."""
    for name in names:
        connection.execute(update(runs).where(*_is_run(tenant, name)).values(experiment=experiment))


def delete_entry(connection: Connection, tenant: str, experiment: str, id_: str) -> None:
    """Delete an entry; experiments that have it pinned have no pin then, and say so."""
    _unpin(connection, experiments.c.baseline_entry == id_, tenant, f"the eval {id_}")
    of_id = (*_of_experiment(tenant, experiment), experiment_entries.c.id == id_)
    connection.execute(delete(experiment_entries).where(*of_id))


def forget_experiment(connection: Connection, tenant: str, name: str) -> None:
    """Delete an experiment with its entries; its runs are deleted, or moved, by whoever calls this.

    Experiments that have one of these entries pinned say that it was deleted.
    """
    known = experiment_entries.c
    for id_ in connection.execute(select(known.id).where(*_of_experiment(tenant, name))).scalars().all():
        _unpin(connection, experiments.c.baseline_entry == id_, tenant, f"the eval {id_}")
    connection.execute(delete(experiment_entries).where(*_of_experiment(tenant, name)))
    connection.execute(delete(experiments).where(*_is_experiment(tenant, name)))


def _unpin(connection: Connection, is_pinned: ColumnElement[bool], tenant: str, what: str) -> None:
    """Let experiments that have what is deleted pinned as their baseline have none, and say so."""
    note = f"{what}, which was pinned, was deleted; until another is pinned, the first complete run with a score counts"
    values = {"baseline": None, "baseline_entry": None, "baseline_note": note}
    connection.execute(update(experiments).where(experiments.c.tenant == tenant, is_pinned).values(**values))


def save_labels(connection: Connection, tenant: str, name: str, labels: Mapping[str, str]) -> None:
    """Give a run these labels in place of those it has."""
    connection.execute(update(runs).where(*_is_run(tenant, name)).values(labels=dict(labels)))


def note_written(connection: Connection, tenant: str, name: str, now_ns: int) -> None:
    """Note that a run was written now; its age for retention counts from then."""
    connection.execute(update(runs).where(*_is_run(tenant, name)).values(written_ns=now_ns))


def note_gate(connection: Connection, tenant: str, name: str, word: str) -> None:
    """Note what the gate said of a run."""
    connection.execute(update(runs).where(*_is_run(tenant, name)).values(gate=word))


def take_back_run(connection: Connection, tenant: str, name: str) -> None:
    """Forget a run that stored nothing, and its experiment if it has no other run, and no person made it."""
    run = stored_run(connection, tenant, name)
    connection.execute(delete(runs).where(*_is_run(tenant, name)))
    if run is not None and not stored_runs(connection, tenant, run.experiment):
        made_by_run = (experiments.c.description.is_(None), experiments.c.suite.is_(None))
        reported = select(experiment_entries.c.id).where(*_of_experiment(tenant, run.experiment)).exists()
        connection.execute(delete(experiments).where(*_is_experiment(tenant, run.experiment), *made_by_run, ~reported))


def delete_run(engine: Engine, tenant: str, name: str) -> int:
    """Delete a run with all its results; experiments that have it pinned have no pin then, and say so.

    A few hundred traces in a transaction, so that another writer waits only milliseconds. A process that writes the run
    cannot go on. Where this was interrupted, the run's state is ``deleting``, and deleting it again does the rest.

    Returns:
        How many traces and sessions were deleted.
    """
    with engine.begin() as connection:
        connection.execute(update(runs).where(*_is_run(tenant, name)).values(state="deleting"))
    deleted = 0
    while True:
        with engine.begin() as connection:
            one_at_a_time(connection)
            numbers = traces_of_run(connection, tenant, name, _TOGETHER)
            deleted += len(numbers)
            if numbers:
                database(connection).delete_traces(connection, numbers)
                continue
            own = (series.c.tenant == tenant, series.c.run == name)
            of_run = counts.c.series.in_(select(series.c.number).where(*own))
            connection.execute(delete(counts).where(counts.c.minutes == WHOLE_RUN, counts.c.minute == 0, of_run))
            connection.execute(delete(series).where(*own))
            connection.execute(delete(runs).where(*_is_run(tenant, name)))
            _unpin(connection, experiments.c.baseline == name, tenant, f"the run {name}")
            return deleted


def delete_experiment(engine: Engine, tenant: str, name: str) -> int:
    """Delete an experiment with its entries and all its runs, as `delete_run` does.

    Returns:
        How many traces and sessions were deleted.
    """
    deleted = 0
    while True:
        with engine.begin() as connection:
            one_at_a_time(connection)
            if not (left := stored_runs(connection, tenant, name)):
                forget_experiment(connection, tenant, name)
                return deleted
        deleted += sum(delete_run(engine, tenant, run.name) for run in left)


def _is_run(tenant: str, name: str) -> tuple[Any, Any]:
    return runs.c.tenant == tenant, runs.c.name == name


def _is_experiment(tenant: str, name: str) -> tuple[Any, Any]:
    return experiments.c.tenant == tenant, experiments.c.name == name


def _of_experiment(tenant: str, name: str) -> tuple[Any, Any]:
    return experiment_entries.c.tenant == tenant, experiment_entries.c.experiment == name
