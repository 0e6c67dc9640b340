"""``tracegrade compare``: did this release make it worse?"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import query_options, rules_option
from tracegrade.cli.output import format_of, progress
from tracegrade.cli.reports import REPORT_FORMATS
from tracegrade.cli.settings import ReadSettings, reading_options
from tracegrade.compare.query import SidesQuery
from tracegrade.queries.times import time_of

if TYPE_CHECKING:
    from tracegrade.compare.rejudging.traces import Rejudging


@click.command(cls=Command)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@query_options(SidesQuery)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="A pass rate may fall by this much before it matters.  [default: 0.02, which is 2 points]",
)
@click.option("--allow-within-margin", is_flag=True, help="Exit 0 when rules are worse only within the margin.")
@click.option(
    "--rates-only",
    is_flag=True,
    help="Compare counts alone: fast in a store of any size, but takes every result as independent.",
)
@click.option(
    "--rejudge",
    is_flag=True,
    help="Judge the stored traces of both sides again, by the rules in force: for rules that are new or changed.",
)
@rules_option("With --rejudge: by these rules instead.")
@click.option("--no-behaviour", is_flag=True, help="Leave out what is called differently: faster.")
@format_of(
    ["table", "json", *REPORT_FORMATS], "Tables, one JSON object, or a report for CI; markdown is for a pull request."
)
@reading_options
def command(
    a: str,
    b: str,
    settings: ReadSettings,
    query: SidesQuery,
    margin: float | None,
    allow_within_margin: bool,
    rates_only: bool,
    rejudge: bool,
    rule_paths: tuple[str, ...],
    no_behaviour: bool,
    output_format: str,
) -> None:
    """Compare stored results: is B worse than A?

    A and B are each release:NAME, agent:NAME, model:NAME, `live`, or the name of a stored run. With @FROM..TO after it,
    only traces first received in that time: live@2026-11-01..2026-11-08, live@2d.. for the last two days.

    Exit codes: 1 a rule is worse, else 3 when nothing can be told of a rule, else 0; 2 usage.
    """
    from tracegrade.compare.commands.compare_reports import print_report
    from tracegrade.compare.compare import Wanted, compare, compare_rejudged
    from tracegrade.compare.sides import named_side
    from tracegrade.rule.gate import MARGIN
    from tracegrade.rule.prices import cost_by
    from tracegrade.store.open import reading_store

    if rule_paths and not rejudge:
        raise click.UsageError("--rules needs --rejudge: stored results are of the rules that were in force then")
    if rejudge and rates_only:
        raise click.UsageError("--rates-only reads counts, and --rejudge makes new results: give one of the two")
    shared = query.filter()
    side_a, side_b = named_side(a, time_of, shared), named_side(b, time_of, shared)
    wanted = Wanted(
        MARGIN if margin is None else margin,
        allow_within_margin,
        rates_only,
        behaviour=not no_behaviour,
        cost_of=cost_by(settings.prices),
    )
    by = _rejudging(settings, rule_paths) if rejudge else None
    with (
        _without_garbage_collection(),
        reading_store(settings.store_url, query.tenant) as connection,
    ):
        if by is None:
            found = compare(connection, side_a, side_b, wanted, progress)
        else:
            found = compare_rejudged(connection, side_a, side_b, wanted, by, progress)
    print_report(output_format, found, settings.links)
    sys.exit(found.exit_code)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """What is read is kept to the end: looking through it for garbage, again and again, takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rejudging(settings: ReadSettings, rule_paths: tuple[str, ...]) -> "Rejudging":
    from tracegrade.cli.judging import cores
    from tracegrade.compare.rejudging.traces import Rejudging

    config = settings.whole()
    paths = rule_paths or tuple(config.rules.paths)
    rule_set = config.load_rules(rule_paths)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    return Rejudging(rule_set, paths, config.rules.reading, config.traces, cores(), config.data_path)
