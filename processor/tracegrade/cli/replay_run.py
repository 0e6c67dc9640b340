"""``replay --experiment``: the options of a run that is stored, how it is begun, and what is said of it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from tracegrade.cli.options import TENANT, together
from tracegrade.cli.output import print_line
from tracegrade.cli.process import make_files_private
from tracegrade.display import count
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.history.runs.experiments import Standing
    from tracegrade.history.runs.recorded_run import RecordedRun
    from tracegrade.model.trace import TraceKey
    from tracegrade.pipeline.replay import Selection
    from tracegrade.rule.rule_set import RuleSet
    from tracegrade.store.runs import Run

R = TypeVar("R")

run_options = together(
    click.option(
        "--experiment",
        metavar="NAME",
        help="Also store the results, as a run of this experiment; 'tracegrade experiments' compares its runs.",
    ),
    click.option(
        "--run",
        "run_name",
        metavar="NAME",
        help="The name of the run; without it, that of the experiment with a number: NAME/1, NAME/2 and so on.",
    ),
    click.option(
        "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the run, such as model=m-2; several."
    ),
    click.option(
        "--tenant",
        type=TENANT,
        help="Of the journal, only this tenant's traces; traces in files are taken as its. So are the run that is "
        f"stored and what is compared with. Without it: all of the journal, else {DEFAULT_TENANT!r}.",
    ),
)
"""The options of a run that is stored: ``experiment``, ``run_name``, ``labels`` and ``tenant``."""


def read_labels(written: Sequence[str]) -> dict[str, str]:
    """The labels in ``KEY=VALUE`` as they are written on the command line.

    Raises:
        UsageError: one is not of that form, or a key comes twice.
    """
    from tracegrade.history.runs.run_changes import labels_of

    try:
        return labels_of(written)
    except ValueError as error:
        raise click.UsageError(f"--label: {error}") from None


@contextmanager
def recorded(config: "Config", asked: "Run | None", name: str | None) -> "Iterator[RecordedRun | None]":
    """A run begun in the store of `config`, which is made if there is none; None when none is `asked` for.

    Traces of runs older than ``store.retention`` are deleted before.

    Raises:
        WrongValue: the name cannot be used.
        StoreError: the store cannot be opened or written.
    """
    if asked is None:
        yield None
        return
    from tracegrade.deletion.request import Deletions
    from tracegrade.history.runs.recorded_run import RecordedRun
    from tracegrade.store.delete import delete_old_runs
    from tracegrade.store.open import open_store

    make_files_private()
    engine = open_store(config.store_url)
    try:
        # Where nobody runs serve, nothing else does this.
        while delete_old_runs(engine, asked.begun_ns - round(config.store.retention * 1e9)):
            pass
        with RecordedRun(engine, asked, name, deleted=Deletions(config.data_path).tombstones) as run:
            yield run
    finally:
        engine.dispose()


def stored_as_they_come(
    shown: "Iterable[tuple[TraceKey, bytes, bytes]]", run: "RecordedRun | None"
) -> "Iterator[tuple[TraceKey, bytes]]":
    """What is shown of each judged trace and session, by its key; its record, the third part, is stored meanwhile."""
    for key, packed, record in shown:
        if run is not None:
            run.add(record)
        yield key, packed
    if run is not None:
        run.complete()


def asked_run(
    experiment: str | None,
    run_name: str | None,
    labels: Sequence[str],
    source: str,
    selection: "Selection",
    rule_set: "RuleSet",
    config: "Config",
) -> "Run | None":
    """What is known of a run before anything is judged; None when no experiment is named, and nothing is stored.

    Raises:
        UsageError: a name or label of a run without an experiment, or a label that cannot be read.
    """
    if experiment is None:
        if run_name is not None or labels:
            raise click.UsageError("--run and --label are of a run that is stored: --experiment NAME stores one")
        return None
    chosen = {name: value for name, value in asdict(selection).items() if value is not None}
    tenant = selection.tenant or DEFAULT_TENANT
    return described_run(tenant, experiment, read_labels(labels), source, chosen, rule_set, config)


def described_run(
    tenant: str,
    experiment: str,
    labels: dict[str, str],
    source: str,
    selection: dict[str, object],
    rule_set: "RuleSet",
    config: "Config",
) -> "Run":
    """What is known of a run before anything is judged; `selection` says what of `source` is in it, and how."""
    from tracegrade.history.runs.new_run import new_run

    return new_run(tenant, experiment, labels, source, selection, rule_set, config)


def print_run(config: "Config", recording: "RecordedRun") -> None:
    """Say on standard error what was stored, and how it stands in its experiment."""
    from tracegrade.history.runs.experiments import known_experiment, known_run, timeline
    from tracegrade.store.open import reading_store

    with reading_store(config.store_url) as connection:
        experiment = known_run(connection, recording.tenant, recording.name).experiment
        found = timeline(connection, known_experiment(connection, recording.tenant, experiment))
    own = next(standing for standing in found.standings if standing.scored.run.name == recording.name)
    text = f"Stored as run {recording.name} of experiment {experiment}: {count(own.scored.traces, 'trace')}"
    text += ", no score" if own.scored.score is None else f", score {own.scored.score:.4f}"
    if found.baseline is not None and not own.is_baseline:
        text += f", {delta_text(own)} against the baseline {found.baseline.scored.run.name}"
    print_line(f"{text}.", err=True)
    if recording.left_out:
        print_line(f"Left out, since their traces were deleted: {recording.left_out}.", err=True)


def delta_text(standing: "Standing") -> str:
    """The difference from the baseline with its sign, and a mark where the rules are not the same."""
    if standing.delta is None:
        return "unknown" if standing.delta_note is None else "unknown (another suite)"
    return f"{standing.delta:+.4f}" + (" (other rules)" if standing.other_rules else "")
