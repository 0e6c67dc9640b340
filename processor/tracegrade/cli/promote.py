"""``tracegrade promote``: recorded traces become tests of a rule, or cases of a suite."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import TIME, rules_option, run_option, tenant_option
from tracegrade.cli.output import EXIT_FAILED, format_option, print_json, print_line, print_table
from tracegrade.cli.redact import counts_text, kept_text, redaction_options
from tracegrade.cli.rule_paths import rules_of_id
from tracegrade.cli.rule_tests import print_results
from tracegrade.cli.settings import settings_options
from tracegrade.part import needed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tracegrade.config import Config
    from tracegrade.history.promote.beside_rule import Item
    from tracegrade.history.promote.promotion import How, Promotion
    from tracegrade.history.promote.rule_test_files import RuleTestFiles
    from tracegrade.rule.rule import Rule


@click.command(cls=Command)
@click.argument("trace_ids", nargs=-1, metavar="[TRACE_ID...]")
@click.option("--rule", "rule_id", metavar="ID", help="The rule whose test the traces become.")
@rules_option("Where the rule is, instead of the rules in the settings.")
@click.option(
    "--suite",
    metavar="NAME|FILE",
    help="Make the traces cases of this suite instead, in suites/NAME.json or FILE; with --rule, a trace that fails it "
    "becomes a case that expects what the rule does.",
)
@click.option(
    "--from",
    "download",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add the tests of this download of the page, instead of traces of the store.",
)
@click.option("--failing", metavar="ID", help="The newest traces on which this rule failed, instead of TRACE_IDs.")
@click.option("--since", type=TIME, help="With --failing: only first received at this time or later.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="With --failing: at most this many."
)
@click.option(
    "--distinct", type=click.Choice(["reason"]), help="With --failing: of the traces with the same reason the newest."
)
@click.option(
    "--expect",
    multiple=True,
    metavar="[NAME=]OUTCOME",
    help="What is expected, if it is not what the rule says now: pass, fail, not_evaluable, error; or not_matched.",
)
@click.option("--known-gap", default="", metavar="WHY", help="Why the rule does not say yet what --expect expects.")
@redaction_options
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written.")
@tenant_option
@run_option
@settings_options
@format_option
def command(
    config: "Config",
    output_format: str,
    trace_ids: tuple[str, ...],
    rule_id: str | None,
    rule_paths: tuple[str, ...],
    suite: str | None,
    download: Path | None,
    failing: str | None,
    since: int | None,
    limit: int,
    distinct: str | None,
    expect: tuple[str, ...],
    known_gap: str,
    keep: tuple[str, ...],
    no_redact: bool,
    dry_run: bool,
    tenant: str | None,
    run: str,
) -> None:
    """Make recorded traces tests of a rule, or cases of a suite.

    Each trace is written beside the rule, in traces/, with an entry in its tests.yaml that expects what the rule says
    of it now. It is shortened to what dialects and the rule read, and redacted: e-mail addresses, phone and card
    numbers, secrets and ids of calls are replaced, the same value always by the same. The rule says of it what it said
    before, or nothing is written. If the rule has no failing or no passing trace yet, the newest one that is stored is
    written as well.

    With --from, the tests that the page made of chosen traces are added instead, as they are.

    JSON: one line for each trace: {trace_id, rule, status, test, expect, known_gap, files, spans, spans_before, kept,
    redacted, not_redacted, message}; with --suite {case, suite, status, redacted};
    with --from, one for each test: {rule, status, test, traces}.

    Exit code 1: a test that was written does not hold.
    """
    from tracegrade.history.promote.promotion import How
    from tracegrade.history.promote.rule_test_files import write

    if download is not None:
        if trace_ids or suite or failing or expect or keep or known_gap or no_redact:
            raise click.UsageError("--from takes the tests as they are; --rule, --rules and --dry-run alone go with it")
        _add_download(config, download, rule_id, rule_paths, dry_run, output_format)
        return
    search = Search(trace_ids, since, limit, distinct is not None, tenant)
    if suite is not None and (expect or keep):
        raise click.UsageError("--expect and --keep are for tests of a rule; leave them out with --suite")
    chosen = "" if suite is not None and not failing and not rule_id else _rule_asked_for(trace_ids, rule_id, failing)
    if known_gap and not expect:
        raise click.UsageError("--known-gap says why --expect does not hold yet: give --expect, too")
    named = rule_paths or config.rules.paths
    rule_set = config.load_rules(rule_paths)
    if suite is not None:
        of_rule = rules_of_id(rule_set, chosen)[0] if chosen else None
        promote = needed("suites", "promote", "--suite")
        promote(config, of_rule, suite, run, search, no_redact, dry_run, output_format)
        return
    (rule,) = rules_of_id(rule_set, chosen)
    how = How(not no_redact, keep, expect, known_gap)
    items, files = _promote(config, rule, Path(rule_set.paths[rule.id]), named, run, search, how)
    if not dry_run:
        write(files.files)
    if output_format == "json":
        print_json(_item_json(item, rule, files, dry_run) for item in items)
    else:
        _print(items, files, dry_run)
    new = {f"{trace.trace_id.hex()}.json" for item in items if item.promotion for trace in item.promotion.traces}
    if files.files and not dry_run and not _tests_hold(rule, rule_set.paths[rule.id], new, config, output_format):
        sys.exit(EXIT_FAILED)


def _add_download(
    config: "Config", path: Path, rule_id: str | None, rule_paths: Sequence[str], dry_run: bool, output_format: str
) -> None:
    """Add the tests of a download beside their rule, but for those of traces that are tests already."""
    from tracegrade.history.promote.download import unpacked
    from tracegrade.history.promote.rule_test_files import RuleTestFiles, check_place, traces_of, write

    found = unpacked(path)
    if rule_id not in (None, found.rule_id):
        raise click.UsageError(f"{path} holds tests of rule {found.rule_id}, not of {rule_id}")
    rule_set = config.load_rules(rule_paths)
    (rule,) = rules_of_id(rule_set, found.rule_id)
    place = Path(rule_set.paths[rule.id])
    check_place(place, rule_paths or config.rules.paths)
    files = RuleTestFiles.beside(place)
    added: set[str] = set()
    lines = []
    entries = found.tests.value if isinstance(found.tests.value, list) else []
    for entry in entries:
        if not isinstance(entry, dict):  # validated
            continue
        names = [str(name) for name in traces_of(entry)]
        there = any(files.has(name.removesuffix(".json")) is not None for name in names)
        if not there:
            files.add_entry(entry, {name: found.traces[name] for name in names})
            added.update(names)
        status = "there" if there else "would_write" if dry_run else "written"
        lines.append({"rule": rule.id, "status": status, "test": entry.get("description"), "traces": names})
    if not dry_run:
        write(files.files)
    if output_format == "json":
        print_json(lines)
    else:
        for line in lines:
            if line["status"] == "there":
                print_line(f"Is a test already: {line['test']}")
        for written in files.files:
            print_line(f"{'would write' if dry_run else 'wrote'} {written}")
    if added and not dry_run and not _tests_hold(rule, rule_set.paths[rule.id], added, config, output_format):
        sys.exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class Search:
    """Which traces: those named, or the newest that fail; of one tenant, or of any."""

    trace_ids: Sequence[str]
    since_ns: int | None
    limit: int
    distinct: bool
    tenant: str | None

    def of(self, connection: "Connection", run: str, rule: "Rule | None") -> Sequence[bytes]:
        """The ids of the traces that are named; else of those of the run that the rule fails."""
        from tracegrade.history.promote.chosen import failing_traces
        from tracegrade.store.named import trace_id_named
        from tracegrade.store.result_filter import ResultFilter

        if self.trace_ids or rule is None:
            return [trace_id_named(connection, written, run=run) for written in self.trace_ids]
        chosen = ResultFilter(rule=rule.id, run=run, since_ns=self.since_ns, tenant=self.tenant)
        return failing_traces(connection, chosen, self.limit, distinct=self.distinct)


def _rule_asked_for(trace_ids: Sequence[str], rule_id: str | None, failing: str | None) -> str:
    if failing is not None:
        if trace_ids or rule_id not in (None, failing):
            raise click.UsageError(
                "give either TRACE_IDs and --rule ID, or --failing ID, which finds the traces itself"
            )
        return failing
    if not trace_ids:
        raise click.UsageError("give TRACE_IDs, or --failing ID to take the newest traces on which that rule failed")
    if rule_id is None:
        raise click.UsageError(
            "give --rule ID: the rule whose test the traces become ('tracegrade why' names those that fail)"
        )
    return rule_id


def _promote(
    config: "Config", rule: "Rule", path: Path, named: Sequence[str], run: str, search: Search, how: "How"
) -> "tuple[list[Item], RuleTestFiles]":
    from tracegrade.history.promote.beside_rule import Promoter
    from tracegrade.history.promote.rule_test_files import RuleTestFiles, check_place
    from tracegrade.queries.lists import check_run
    from tracegrade.store.open import reading_store

    check_place(path, named)
    files = RuleTestFiles.beside(path)
    with reading_store(config.store_url, search.tenant) as connection:
        check_run(connection, run)
        promoter = Promoter(connection, run, rule, config.traces, how, search.tenant)
        items = promoter.add(files, search.of(connection, run, rule), lenient=not search.trace_ids)
        if files.files:
            items += promoter.balance(files)
    return items, files


def _item_json(item: "Item", rule: "Rule", files: "RuleTestFiles", dry_run: bool) -> dict[str, Any]:
    made = item.promotion
    written = "would_write" if dry_run else "written"
    return {
        "trace_id": item.id,
        "rule": rule.id,
        "status": "there" if item.is_there else "left_out" if made is None else written,
        "test": made.description if made else None,
        "expect": made.expect if made else None,
        "known_gap": made.known_gap or None if made else None,
        "files": [str(path) for path in files.of(made)] if made else [],
        "spans": made.spans if made else None,
        "spans_before": made.spans_before if made else None,
        "kept": made.kept_more or None if made else None,
        "redacted": made.redaction.counts if made else {},
        "not_redacted": made.redaction.kept if made else [],
        "message": item.message or None,
    }


def _print(items: "Sequence[Item]", files: "RuleTestFiles", dry_run: bool) -> None:
    made = [(item, item.promotion) for item in items if item.promotion is not None]
    if made:
        print_table(
            "",
            ["trace", "expected", "spans", "redacted"],
            [
                [
                    item.id,
                    _expected_text(promoted),
                    f"{promoted.spans} of {promoted.spans_before}",
                    counts_text(promoted.redaction.counts),
                ]
                for item, promoted in made
            ],
            whole=["trace"],
        )
    for item in items:
        for note in _notes(item):
            print_line(f"Trace {item.id} {note}.", err=item.promotion is None and not item.is_there)
    for path in files.files:
        print_line(f"{'would write' if dry_run else 'wrote'} {path}")
    if not items:
        print_line("No such traces.")
    if files.files and (lacking := files.lacks()):
        words = " and ".join({"fail": "fails", "pass": "passes"}[outcome] for outcome in lacking)
        print_line(
            f"'tracegrade rules test' also asks for a trace that {words} the rule, and the store has none: promote one "
            "when there is one, or write one by hand.",
            err=True,
        )


def _expected_text(promoted: "Promotion") -> str:
    from tracegrade.pipeline.rule_tests import expectation_text

    return expectation_text(promoted.expect) + (", a known gap" if promoted.known_gap else "")


def _notes(item: "Item") -> list[str]:
    notes = [item.message] if item.message else []
    if item.balances:
        notes.append(
            f"was added because the rule had no trace that {'fails' if item.balances == 'fail' else 'passes'} it"
        )
    if item.promotion is not None and item.promotion.kept_more:
        notes.append(f"keeps {item.promotion.kept_more}: without, the rule says something else")
    if item.promotion is not None and (kept := item.promotion.redaction.kept):
        notes.append(kept_text(kept))
    return notes


def _tests_hold(rule: "Rule", path: str, new: set[str], config: "Config", output_format: str) -> bool:
    """Whether the tests of the `new` trace files hold, as ``rules test`` runs them; prints how it went."""
    from tracegrade.pipeline.rule_tests import run_tests

    results = [
        one for one in run_tests(rule, Path(path), config.traces) if one.test and new.intersection(one.test.traces)
    ]
    if output_format == "table":
        print_results(results)
    return not any(result.failure for result in results)
