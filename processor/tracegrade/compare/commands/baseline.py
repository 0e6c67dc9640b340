"""``tracegrade baseline``: results saved for gates, in files for git."""

import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.judging import jobs_option, judged_and_shown
from tracegrade.cli.options import rules_option, tenant_option
from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    end_if_nothing_read,
    format_option,
    print_json,
    print_line,
    print_lines,
    print_rows,
    print_source_report,
    print_table,
    progress,
)
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, time_text
from tracegrade.model.errors import CannotTell, TraceGradeError
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.queries.times import time_of

if TYPE_CHECKING:
    from tracegrade.compare.gate.baseline_file import SavedBaseline
    from tracegrade.compare.gate.results import Results
    from tracegrade.config import Config
    from tracegrade.model.trace import TraceKey
    from tracegrade.pipeline.judged import Judged
    from tracegrade.pipeline.replay import Selection
    from tracegrade.rule.rule_set import RuleSet


@click.group(cls=Group, path="baseline")
def command() -> None:
    """Save what a gate compares with: how often each rule passes, in a small file for git.

    Saved in .tracegrade/baselines/NAME.json below this folder. A file has counts, ids of cases and hashes of prompts,
    and no values.
    """


@command.command()
@click.argument("name", metavar="NAME")
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option(
    "--of",
    "side",
    metavar="SIDE",
    help="Save what is stored of this side, as 'compare' takes it: release:1.4.2, live@2d.., a run.",
)
@click.option(
    "--run", metavar="NAME", help="Save only the name of this stored run: gates read its results in the store."
)
@rules_option("For SOURCE: judge by these rules instead of those in the settings.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save it here.")
@tenant_option
@jobs_option
@settings_options
def save(
    name: str,
    sources: tuple[str, ...],
    side: str | None,
    run: str | None,
    rule_paths: tuple[str, ...],
    output: Path | None,
    tenant: str | None,
    jobs: int,
    config: "Config",
) -> None:
    """Save a baseline, in place of the one of that name.

    SOURCE is a file or folder of traces, as 'replay' takes it, and is judged now, with --tenant as that tenant's; --of
    and --run take what is stored.
    """
    from tracegrade.compare.gate.baselines import FOLDER, check_name, save

    check_name(name)
    if sum((bool(sources), side is not None, run is not None)) != 1:
        raise click.UsageError("name one of SOURCE, --of SIDE and --run NAME: what the baseline is made of")
    if rule_paths and not sources:
        raise click.UsageError("--rules is for SOURCE: what is stored was judged already")
    if run is not None:
        saved = _of_run(name, config, run, tenant)
    elif side is not None:
        saved = _of_results(name, side, _stored(config, side, tenant))
    else:
        source = ", ".join("standard input" if item == "-" else item for item in sources)
        saved = _of_results(name, source, _judged(config, sources, rule_paths, jobs, tenant))
    path = output or FOLDER / f"{name}.json"
    save(saved, path)
    print_line(f"Saved {name}, {_contents(saved)}, to {path}.")


def _of_run(name: str, config: "Config", run: str, tenant: str | None) -> "SavedBaseline":
    from tracegrade.history.runs.experiments import known_run
    from tracegrade.store.open import reading_store

    tenant = tenant or DEFAULT_TENANT
    with reading_store(config.store_url) as connection:
        found = known_run(connection, tenant, run)
    if found.state != "complete":
        raise click.UsageError(f"--run: {run} is {found.state}: a baseline has to be complete")
    return _saved(name, f"run {run}", run=run, tenant=tenant)


def _of_results(name: str, source: str, results: "Results") -> "SavedBaseline":
    from tracegrade.compare.gate.baseline_file import saved_rules

    if not any(tallies.whole.judged for tallies in results.tallies.values()):
        print_lines(f"Error: {source}: no rule passed or failed on anything, so there is nothing to save", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    for note in results.notes:
        print_line(f"Warning: {source}: {note}", err=True)
    return _saved(name, source, rules=saved_rules(results))


def _saved(name: str, source: str, **fields: Any) -> "SavedBaseline":
    from tracegrade.compare.gate.baseline_file import FORMAT, VERSION, SavedBaseline
    from tracegrade.history.runs.git_revision import git_revision
    from tracegrade.pipeline.version import tracegrade_version

    return SavedBaseline(
        format=FORMAT,
        version=VERSION,
        name=name,
        source=source,
        saved=time_text(time.time_ns()),
        tracegrade=tracegrade_version(),
        git_revision=git_revision(Path.cwd()),
        **fields,
    )


def _stored(config: "Config", text: str, tenant: str | None) -> "Results":
    from tracegrade.compare.gate.results import results_of
    from tracegrade.compare.sides import named_side
    from tracegrade.rule.rule_set import RuleSet
    from tracegrade.store.open import reading_store

    with reading_store(config.store_url, tenant) as connection:
        return results_of(connection, named_side(text, time_of), RuleSet([]), progress)


def _judged(
    config: "Config", sources: tuple[str, ...], rule_paths: tuple[str, ...], jobs: int, tenant: str | None
) -> "Results":
    from tracegrade.pipeline.replay import Selection

    paths = tuple(rule_paths or config.rules.paths)
    rule_set = config.load_rules(rule_paths)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    try:
        return _results(sources, config, rule_set, paths, jobs, Selection(tenant=tenant))
    except CannotTell as error:
        print_lines(f"Error: {error}", err=True)
        sys.exit(EXIT_CANNOT_TELL)


def _results(
    sources: tuple[str, ...],
    config: "Config",
    rule_set: "RuleSet",
    paths: Sequence[str],
    jobs: int,
    selection: "Selection",
) -> "Results":
    """The results of `sources`, judged by the rules at `paths`, which are `rule_set`; says what was not read of them.

    Raises:
        CannotTell: a worker was killed, crashed, or found other rules; a temporary file cannot be written.
    """
    from tracegrade.compare.gate.results import JudgedResults, JudgedUnits
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.pipeline.latest_results import LatestResults
    from tracegrade.pipeline.replay import NOT_STORED
    from tracegrade.pipeline.workers import ReplayJob

    reading, traces = config.rules.reading, config.traces
    job = ReplayJob(paths, reading, rule_set.hash, NOT_STORED, traces.tool_aliases, traces.prices, _units)
    found, report = JudgedResults(rule_set), SourceReport()
    with LatestResults() as latest:
        for key, units in judged_and_shown(sources, config, rule_set, job, jobs, report, selection):
            latest.put(key, units)
        for units in latest:
            found.add(JudgedUnits(*pickle.loads(units)))
    print_source_report(report, "table")
    end_if_nothing_read(report)
    return found.results


def _units(judged: "Judged") -> "tuple[TraceKey, bytes]":
    from tracegrade.compare.gate.results import judged_units

    return judged.key, pickle.dumps(tuple(judged_units(judged)))


def _contents(saved: "SavedBaseline") -> str:
    if saved.run is not None:
        return f"the run {saved.run}"
    results = sum(rule.passed + rule.failed for of_id in saved.rules.values() for rule in of_id.values())
    return f"{count(len(saved.rules), 'rule')} with {count(results, 'result')}"


@command.command("list")
@format_option
def list_(output_format: str) -> None:
    """List the saved baselines of this folder. JSON: {name, path, source, saved, git_revision, tracegrade, problem}."""
    from tracegrade.compare.gate.baseline_file import read_baseline
    from tracegrade.compare.gate.baselines import FOLDER, saved_names

    rows = []
    for name in saved_names():
        path = FOLDER / f"{name}.json"
        row: dict[str, Any] = {"name": name, "path": str(path)}
        try:
            saved = read_baseline(path)
        except TraceGradeError as error:
            row |= {"source": None, "saved": None, "git_revision": None, "tracegrade": None, "problem": str(error)}
        else:
            row |= {key: getattr(saved, key) for key in ("source", "saved", "git_revision", "tracegrade")}
            row |= {"contents": _contents(saved), "problem": None}
        rows.append(row)
    if output_format == "json":
        print_json({key: value for key, value in row.items() if key != "contents"} for row in rows)
        return
    print_rows(
        (
            {
                "baseline": row["name"],
                "from": row["source"],
                "holds": row["problem"] or row["contents"],
                "saved (UTC)": row["saved"],
                "git revision": row["git_revision"],
            }
            for row in rows
        ),
        empty=f"No baseline in {FOLDER}; 'tracegrade baseline save NAME' saves one.",
        whole=["baseline", "saved (UTC)"],
        spare=["git revision"],
    )


@command.command()
@click.argument("name", metavar="NAME|FILE")
@format_option
def show(name: str, output_format: str) -> None:
    """Show a saved baseline: what it was saved from, and how often each rule passed. JSON: the file as one line."""
    from tracegrade.compare.gate.baseline_file import read_baseline
    from tracegrade.compare.gate.baselines import saved_path

    saved = read_baseline(saved_path(name))
    if output_format == "json":
        print_json([saved.model_dump(by_alias=True)])
        return
    print_line(f"baseline {saved.name}, {_contents(saved)}")
    print_line(f"  saved {saved.saved} UTC from {saved.source}, by TraceGrade {saved.tracegrade}")
    if saved.git_revision:
        print_line(f"  git {saved.git_revision}")
    rows = [
        [
            rule_id,
            rule_hash,
            "" if rule.pass_rate is None else f"{rule.pass_rate:.2%}",
            rule.passed,
            rule.failed,
            *(number or None for number in (rule.not_evaluable, rule.error, rule.incomplete)),
        ]
        for rule_id, contents in saved.rules.items()
        for rule_hash, rule in contents.items()
    ]
    if rows:
        columns = ["rule", "rule hash", "pass rate", "pass", "fail", "not_evaluable", "error", "incomplete"]
        print_table("", columns, rows, whole=["rule hash"], spare=["incomplete", "error", "not_evaluable"])
