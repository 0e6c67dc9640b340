"""``tracegrade experiments``: stored runs of replay."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.options import confirm_deletion, note_command, own_tenant_option, yes_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    Styled,
    format_option,
    print_json,
    print_line,
    print_table,
    print_text,
    styled,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.replay_run import delta_text
from tracegrade.cli.settings import ReadSettings, reading_options
from tracegrade.display import count, time_text
from tracegrade.model.errors import NotPossible
from tracegrade.model.evaluation import OUTCOMES
from tracegrade.part import needed

if TYPE_CHECKING:
    from tracegrade.history.runs.experiments import ScoredRun, Standing, Timeline
    from tracegrade.store.runs import Run

_RATE = "pass rate"
_OVERALL = "mean overall"
_COUNT_HEADINGS = (*OUTCOMES, "incomplete")
_COUNTED = ("passed", "failed", "not_evaluable", "errors", "incomplete")


def listed(item: "Timeline") -> list[object]:
    """The row of an experiment: its name and runs, baseline, best and latest run."""
    latest = item.standings[-1] if item.standings else None
    return [
        item.experiment.name,
        len(item.standings),
        *name_and_score(item.baseline),
        *name_and_score(item.best),
        *([None, None] if latest is None else [latest.scored.run.name, time_text(latest.scored.run.begun_ns)]),
        None if latest is None else score_text(latest.scored.score),
        None if latest is None else delta_text(latest),
    ]


def timeline_rows(found: "Timeline") -> list[list[object]]:
    """The rows of an experiment's runs and of what other tools reported, in the order of time."""
    rows: list[tuple[int, list[object]]] = []
    for standing in found.standings:
        run = standing.scored.run
        row: list[object] = [
            time_text(run.begun_ns),
            run.name,
            state_text(run),
            standing.scored.traces,
            score_text(standing.scored.score),
            "baseline" if standing.is_baseline else delta_text(standing),
            "★" if standing.is_best else None,
            run.releases,
            labels_text(run),
        ]
        rows.append((run.begun_ns, row))
    for reported in found.entries:
        entry = reported.entry
        row = [
            time_text(entry.at_ns),
            entry.kind if entry.promoted_from is None else f"{entry.kind}, promoted from the tune",
            None,
            None,
            score_text(entry.score),
            "baseline" if reported.is_baseline else None if reported.delta is None else f"{reported.delta:+.4f}",
            "★" if reported.is_best else None,
            None,
            reported.summary,
        ]
        rows.append((entry.at_ns, row))
    return [row for _, row in sorted(rows, key=lambda timed: timed[0])]


def name_and_score(standing: "Standing | None") -> list[object]:
    """The name and the score of a run, as two cells."""
    if standing is None:
        return [None, None]
    return [standing.scored.run.name, score_text(standing.scored.score)]


def print_experiment(found: "Timeline") -> None:
    """Print which runs of an experiment are its baseline and its best."""
    print_text(styled(f"experiment {found.experiment.name}", "bold"))
    print_line(f"  {count(len(found.standings), 'run')}, the first begun {time_text(found.experiment.begun_ns)} UTC")
    for what, standing in (("baseline", found.baseline), ("best", found.best)):
        if standing is not None:
            pinned = " (pinned)" if what == "baseline" and found.experiment.baseline is not None else ""
            print_line(f"  {what} {standing.scored.run.name}{pinned}, score {score_text(standing.scored.score)}")
    if (reported := found.reported) is not None:
        print_line(f"  baseline eval {reported.id} (pinned), which was reported, score {score_text(reported.score)}")
    if found.experiment.baseline_note is not None:
        print_line(f"  {found.experiment.baseline_note}")
    print_line()


def print_run(standing: "Standing", baseline: "Standing | None") -> None:
    """Print one run: what it was made of, and every rule beside the baseline."""
    scored, run = standing.scored, standing.scored.run
    print_text(styled(f"run {run.name}", "bold") + styled("  ") + state_text(run))
    score = f"score {score_text(scored.score)}"
    if standing.is_baseline:
        score += ", the baseline"
    elif baseline is not None:
        score += f", {delta_text(standing)} against the baseline {baseline.scored.run.name}"
    for line in (score, *_made_of(standing)):
        print_line(f"  {line}")
    before = None if baseline is None or standing.is_baseline else baseline.scored
    overall = [_OVERALL] if scored.overall else []
    print_table(
        "",
        ["rule", _RATE, *overall, *(["baseline", "delta"] if before else []), *_COUNT_HEADINGS],
        [
            [
                rule_id,
                _rate_text(sums.pass_rate),
                *([_overall_text(scored.overall.get(rule_id))] if overall else []),
                *(_against(scored, before, rule_id, rule_id in standing.other_rules) if before else []),
                *(getattr(sums, name) or None for name in _COUNTED),
            ]
            for rule_id, sums in scored.rules.items()
        ],
        empty="\nNo rule judged anything.",
        whole=[_RATE, _OVERALL],
        spare=["incomplete", "error", "not_evaluable"],
    )


def _made_of(standing: "Standing") -> Iterator[str]:
    """What a run was made of, a line each."""
    run = standing.scored.run
    if run.state == "incomplete":
        yield f"it is being written, or that broke off; the same command with --run {run.name} goes on with it"
    traces = f"{count(standing.scored.traces, 'trace')} of {run.source}"
    chosen = f", {_selection_text(run)}" if run.selection else ""
    yield traces + chosen + (f"; releases {', '.join(run.releases)}" if run.releases else "")
    gate = f"; gate: {run.gate.replace('_', ' ')}" if run.gate else ""
    yield f"begun {time_text(run.begun_ns)} UTC, written {time_text(run.written_ns)} UTC{gate}"
    git = f", git {run.git_revision}" if run.git_revision else ""
    yield f"rules {run.judgement_hash}, settings {run.settings_hash}, TraceGrade {run.tracegrade}{git}"
    if run.prompt_hash is not None:
        yield f"{count(run.prompt_count, 'prompt')}, together {run.prompt_hash}"
    if run.labels:
        yield f"labels {labels_text(run)}"
    if run.emptied:
        yield "its traces were deleted by store.retention; what was counted stays"


def _against(scored: "ScoredRun", before: "ScoredRun", rule_id: str, is_other: bool) -> list[str]:
    """The rule's score in the baseline, and the difference from it."""
    score, other = scored.rule_score(rule_id), before.rule_score(rule_id)
    delta = "" if score is None or other is None else f"{round(score - other, 4):+.4f}"
    text = _overall_text(other) if rule_id in before.overall else _rate_text(other) if rule_id in before.rules else ""
    return [text, f"{delta} (another rule)".strip() if is_other else delta]


def state_text(run: "Run") -> Styled:
    """The state in its colour and with a sign, and what ended a failed run."""
    sign, style = {
        "complete": ("✓", "green"),
        "incomplete": ("–", "yellow"),
        "failed": ("✗", "bold red"),
        "deleting": ("–", "yellow"),
    }[run.state]
    return styled(f"{sign} {run.state}" + (f": {run.problem}" if run.problem else ""), style)


def score_text(score: float | None) -> str:
    """A score with its 4 digits; "unknown" is not 0."""
    return "unknown" if score is None else f"{score:.4f}"


def _rate_text(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:.1%}"


def _overall_text(overall: float | None) -> str:
    return "" if overall is None else score_text(overall)


def labels_text(run: "Run") -> str:
    """The labels as they were given, in order of their keys."""
    return ", ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))


def _selection_text(run: "Run") -> str:
    chosen = [
        f"{name.removesuffix('_ns')} {time_text(value) if name.endswith('_ns') else value}"
        for name, value in run.selection.items()
    ]
    return "only " + ", ".join(chosen)


tenant_option = own_tenant_option("Whose experiments.")


@click.group(cls=Group, path="experiments")
def command() -> None:
    """Show and compare the runs that 'replay --experiment' stored.

    The score of a run is the mean of the pass rates of its rules. The baseline of an experiment is the run that is
    pinned, or else its first complete run with a score.
    """


@command.command("list")
@tenant_option
@reading_options
@format_option
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
    help="Of an experiment: move its runs into the experiments of their suites. Refused if it has runs of no stored"
    " suite.",
)
@click.option("--force", is_flag=True, help="Also if another experiment has it pinned as its baseline.")
@yes_option
@tenant_option
@reading_options
def delete(settings: ReadSettings, tenant: str, name: str, keep_runs: bool, force: bool, yes: bool) -> None:
    """Delete a run, or an experiment with all its runs, with everything that is stored of them.

    Live results stay. A run that a job or a process still writes is not deleted.
    """
    from tracegrade.history.runs.experiments import run_or_experiment
    from tracegrade.history.runs.run_changes import delete_stored_run, delete_with_runs
    from tracegrade.store.open import reading_store
    from tracegrade.store.runs import Run, stored_runs

    delete = needed("suites", "delete_experiment_alone", "--keep-runs") if keep_runs else delete_with_runs
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
