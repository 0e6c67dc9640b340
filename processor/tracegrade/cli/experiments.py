"""``tracegrade experiments``: runs that replay stored, and how each did against the baseline of its experiment."""

import sys
from typing import TYPE_CHECKING

import click

from tracegrade.cli.access_log import note_command
from tracegrade.cli.confirm import confirm_deletion, yes_option
from tracegrade.cli.experiment_tables import (
    listed,
    name_and_score,
    print_experiment,
    print_run,
    score_text,
    timeline_rows,
)
from tracegrade.cli.output import EXIT_FAILED, format_option, print_json, print_line, print_table, reports_errors
from tracegrade.cli.private_files import make_files_private
from tracegrade.cli.reading import ReadSettings, reading_options
from tracegrade.cli.tenant_option import own_tenant_option
from tracegrade.display import count
from tracegrade.model.errors import NotPossible

if TYPE_CHECKING:
    from tracegrade.history.runs.experiments import Timeline

tenant_option = own_tenant_option("Whose experiments.")


@click.group()
def command() -> None:
    """Show and compare the runs that 'replay --experiment' stored.

    The score of a run is the mean of the pass rates of its rules. The baseline of an experiment is the run that is
    pinned, or else its first complete run with a score.
    """


@command.command("list")
@tenant_option
@reading_options
@format_option
@reports_errors
def list_(settings: ReadSettings, output_format: str, tenant: str) -> None:
    """List experiments with their baseline, their best run and their latest run."""
    from tracegrade.history.runs.experiments import timeline
    from tracegrade.store.open import reading_store
    from tracegrade.store.runs import stored_experiments

    with reading_store(settings.store_url) as connection:
        found = [timeline(connection, experiment) for experiment in stored_experiments(connection, tenant)]
    if output_format == "json":
        print_json(item.to_json() for item in found)
        return
    print_table(
        "",
        ["experiment", "runs", "baseline", "score", "best", "score", "latest", "begun (UTC)", "score", "delta"],
        [listed(item) for item in found],
        empty="No experiments; 'tracegrade replay --experiment NAME' stores a run of one.",
        whole=["experiment", "begun (UTC)"],
    )


@command.command()
@click.argument("name", metavar="NAME")
@tenant_option
@reading_options
@format_option
@reports_errors
def show(settings: ReadSettings, output_format: str, tenant: str, name: str) -> None:
    """Show an experiment, or one run: what it was made of, and every rule's pass rate beside that of the baseline.

    Of an experiment, the pass rates of its latest run are shown. JSON: {tenant, experiment, begun_ns, baseline, best,
    baseline_entry, pinned, baseline_note, runs} of an experiment; of a run, the line that 'timeline' gives for it.
    """
    from tracegrade.history.runs.experiments import known_experiment, run_or_experiment, timeline
    from tracegrade.store.open import reading_store
    from tracegrade.store.runs import Experiment

    with reading_store(settings.store_url) as connection:
        named = run_or_experiment(connection, tenant, name)
        is_experiment = isinstance(named, Experiment)
        experiment = named if isinstance(named, Experiment) else known_experiment(connection, tenant, named.experiment)
        found = timeline(connection, experiment)
    if is_experiment and output_format == "json":
        print_json([found.to_json()])
        return
    if is_experiment:
        print_experiment(found)
    if not found.standings:
        return
    chosen = next((item for item in found.standings if item.scored.run.name == name), found.standings[-1])
    if output_format == "json":
        print_json([chosen.to_json()])
    else:
        print_run(chosen, found.baseline)


@command.command("timeline")
@click.argument("experiment", metavar="EXPERIMENT")
@tenant_option
@reading_options
@format_option
@reports_errors
def timeline_(settings: ReadSettings, output_format: str, tenant: str, experiment: str) -> None:
    """List the runs of an experiment in the order in which they were begun, each against the baseline.

    Between them are the entries that other tools reported. A star is on every run that was better than all runs before
    it, and on every tune that was better than everything before it. JSON: one run per line, {tenant, run, experiment,
    state, problem, gate, begun_ns, written_ns, traces, traces_kept, score, rules, rule_set_hash, judgement_hash,
    settings_hash, labels, releases, prompt_hash, prompt_count, source, selection, tracegrade, git_revision, delta,
    delta_note, is_baseline, is_best, other_rules}; then one entry per line, {tenant, experiment, entry, type, at_ns,
    score, delta, is_baseline, is_best, configuration, promoted_from}.
    """
    found = _timeline(settings, tenant, experiment)
    if output_format == "json":
        print_json([*(item.to_json() for item in found.standings), *(item.to_json() for item in found.entries)])
        return
    made_of = "labels, configuration" if found.entries else "labels"
    print_table(
        "",
        [
            "begun (UTC)",
            "run",
            "state",
            "traces",
            "score",
            "delta",
            "best",
            "releases",
            made_of,
        ],
        timeline_rows(found),
        empty="No runs.",
        whole=["begun (UTC)", "run", "score", "delta"],
        spare=[made_of, "releases", "traces"],
    )


@command.command()
@click.argument("experiment", metavar="EXPERIMENT")
@tenant_option
@reading_options
@format_option
@reports_errors
def best(settings: ReadSettings, output_format: str, tenant: str, experiment: str) -> None:
    """Show the best run of an experiment: the first of those with the highest score.

    Exit code 1: no complete run has a score.
    """
    found = _timeline(settings, tenant, experiment)
    if found.best is None:
        print_line(f"No complete run of {experiment} has a score.", err=True)
        sys.exit(EXIT_FAILED)
    if output_format == "json":
        print_json([found.best.to_json()])
        return
    print_run(found.best, found.baseline)
    if (better := found.best_entry) is not None:
        score = score_text(better.entry.score)
        print_line()
        print_line(f"Better is what a {better.entry.kind} reported, score {score}: {better.summary}")


@command.command()
@click.argument("experiment", metavar="EXPERIMENT")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--unpin", is_flag=True, help="Pin none: the first complete run with a score is the baseline again.")
@tenant_option
@reading_options
@format_option
@reports_errors
def baseline(
    settings: ReadSettings, output_format: str, tenant: str, experiment: str, run: str | None, unpin: bool
) -> None:
    """Pin RUN as the baseline of an experiment; without RUN, only show which run it is.

    Only a complete run with a score can be pinned. JSON: as 'list'.
    """
    from tracegrade.history.runs.run_changes import pin

    if run is not None and unpin:
        raise click.UsageError("--unpin takes the pin away: leave RUN out")
    found = _timeline(settings, tenant, experiment)
    if run is not None or unpin:
        make_files_private()
        try:
            pin(settings.store_url, tenant, experiment, run)
        except NotPossible as error:
            raise click.UsageError(str(error)) from None
        found = _timeline(settings, tenant, experiment)
    if output_format == "json":
        print_json([found.to_json()])
    elif (reported := found.reported) is not None:
        was = f"(pinned), which was reported, score {score_text(reported.score)}"
        print_line(f"The baseline of {experiment} is the eval {reported.id} {was}.")
    elif found.baseline is None:
        print_line(f"{experiment} has no baseline: no complete run of it has a score.")
    else:
        how = "pinned" if found.is_pinned else "the first complete run with a score"
        name, score = name_and_score(found.baseline)
        print_line(f"The baseline of {experiment} is {name} ({how}), score {score}.")
    if output_format != "json" and (note := found.experiment.baseline_note) is not None:
        print_line(f"Note: {note}.")


@command.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--keep-runs",
    is_flag=True,
    help="Of an experiment: keep its runs, which go into the own experiments of their suites; one that holds runs of "
    "no stored suite is not deleted.",
)
@click.option("--force", is_flag=True, help="Also what another experiment has pinned as its baseline.")
@yes_option
@tenant_option
@reading_options
@reports_errors
def delete(settings: ReadSettings, tenant: str, name: str, keep_runs: bool, force: bool, yes: bool) -> None:
    """Delete a run, or an experiment with all its runs, with everything that is stored of them.

    What was judged live stays. What a job or a process writes is deleted once that has ended, not before.
    """
    from tracegrade.history.runs.experiments import run_or_experiment
    from tracegrade.history.runs.run_changes import delete_stored_run
    from tracegrade.history.suite_runs.experiment_deletion import delete_with_runs, delete_without_runs
    from tracegrade.store.open import reading_store
    from tracegrade.store.runs import Run, stored_runs

    with reading_store(settings.store_url) as connection:
        is_run = isinstance(run_or_experiment(connection, tenant, name), Run)
        what = f"run {name}"
        if is_run and keep_runs:
            raise click.UsageError(f"--keep-runs is for experiments, and {name} is a run")
        if not is_run:
            runs = count(len(stored_runs(connection, tenant, name)), "run")
            what = f"experiment {name}, without its {runs}," if keep_runs else f"experiment {name} with {runs}"
    confirm_deletion(what, yes)
    make_files_private()
    note_command(settings.whole(), "experiments delete", "admin", tenant, name=name)
    if is_run:
        deleted = delete_stored_run(settings.store_url, tenant, name, force=force)
    else:
        delete = delete_without_runs if keep_runs else delete_with_runs
        done = delete(settings.store_url, tenant, name, force=force)
        deleted = done.traces
        if keep_runs:
            print_line(f"Deleted experiment {name}; {count(done.runs_kept, 'run')} kept.")
            return
    print_line(f"Deleted {what}: {deleted} traces and sessions.")


def _timeline(settings: ReadSettings, tenant: str, experiment: str) -> "Timeline":
    from tracegrade.history.runs.experiments import known_experiment, timeline
    from tracegrade.store.open import reading_store

    with reading_store(settings.store_url) as connection:
        return timeline(connection, known_experiment(connection, tenant, experiment))
