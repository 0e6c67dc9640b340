"""``tracegrade rules backtest``: what changed rules would have said of stored traces."""

import sys
import time
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.judging import jobs_option
from tracegrade.cli.options import query_options
from tracegrade.cli.output import EXIT_CANNOT_TELL, format_of, print_json, print_lines, progress
from tracegrade.cli.rule_paths import reading_with
from tracegrade.cli.settings import settings_options
from tracegrade.model.errors import CannotTell
from tracegrade.queries.parameters import JudgedTracesQuery

if TYPE_CHECKING:
    from tracegrade.config import Config


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@query_options(JudgedTracesQuery, since="30d")
@click.option(
    "--against",
    default="live",
    show_default=True,
    metavar="live|FOLDER|GIT_REVISION",
    help="What to compare with: what was judged live, other rules, or the rules at PATH as of a git revision.",
)
@click.option("--rule", "named", multiple=True, metavar="ID", help="Only this rule, changed or not; may be repeated.")
@click.option(
    "--store",
    is_flag=True,
    help="Keep the results in the store as run 'backfill', in place of an earlier one of these rules: charts and the "
    "baselines of alerts have them where the rule has judged nothing live.",
)
@jobs_option
@format_of(["table", "json", "markdown"], "Tables, one JSON object, or Markdown for a pull request.")
@settings_options
def backtest(
    config: "Config",
    paths: tuple[str, ...],
    query: JudgedTracesQuery,
    against: str,
    named: tuple[str, ...],
    store: bool,
    jobs: int,
    output_format: str,
) -> None:
    """Judge stored traces by the rules at PATH that changed: what would they have said?

    Nothing is deployed, sent or alerted, and nothing is stored without --store. For each rule that judges otherwise
    than the other side: which subjects newly fail, newly pass, or are newly matched, its pass rate before and after by
    agent and release, and when its alerts would have fired.

    What the store did not keep of a trace is read from the journal, where that still holds it.

    Exit codes: 0 done, 2 usage, 3 there is nothing to judge.
    """
    from tracegrade.compare.backtest.backtest import Asked
    from tracegrade.compare.backtest.backtest import backtest as judge
    from tracegrade.compare.backtest.sources import Rules, other_rules
    from tracegrade.compare.backtest.storing import store_backfill, waiting
    from tracegrade.compare.commands.rule_backtest_tables import backtest_markdown, print_backtest
    from tracegrade.store.open import reading_store

    now_ns = time.time_ns()
    since_ns = query.since or 0
    until_ns = now_ns if query.until is None else min(query.until, now_ns)
    if since_ns >= until_ns:
        ends = "in the future" if since_ns >= now_ns else "not before --until"
        raise click.UsageError(f"--since is {ends}: there is no trace between the two")
    reading = reading_with(config.rules.reading)
    rules = Rules(", ".join(paths), paths, reading.load(paths))
    with waiting() as said, other_rules(against, paths, reading) as other:
        asked = Asked(
            rules=rules,
            other=other,
            named=named,
            since_ns=since_ns,
            until_ns=until_ns,
            settings=config.traces,
            reading=reading,
            data_path=config.data_path,
            jobs=jobs,
            service=query.service,
            agent=query.agent,
            release=query.release,
            tenant=query.tenant,
        )
        try:
            with reading_store(config.store_url, asked.tenant) as connection:
                found = judge(connection, asked, progress, said.add if store else None)
        except CannotTell as error:
            print_lines(f"Error: {error}", err=True)
            sys.exit(EXIT_CANNOT_TELL)
        if store and found.changes:
            hashes = {change.rule.id: change.rule.hash for change in found.changes}
            times = {"since_ns": asked.since_ns, "until_ns": asked.until_ns}
            found.stored = store_backfill(
                config.store_url, said, hashes, tenant=asked.tenant, **times, progress=progress
            )
    if output_format == "json":
        print_json([found.to_json()])
    elif output_format == "markdown":
        print_lines(backtest_markdown(found, config.alerts.links))
    else:
        print_backtest(found, config.alerts.links)
