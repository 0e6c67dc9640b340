"""``tracegrade promote --suite``: recorded traces become cases of a suite's file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.output import print_json, print_line
from tracegrade.cli.redact import counts_text

if TYPE_CHECKING:
    from tracegrade.cli.promote import Search
    from tracegrade.config import Config
    from tracegrade.rule.rule import Rule


def promote(
    config: "Config",
    rule: "Rule | None",
    name: str,
    run: str,
    search: "Search",
    no_redact: bool,
    dry_run: bool,
    output_format: str,
) -> None:
    """Add the traces of `search` to the suite's file at `name`, a path that ends in ``.json``, or a name."""
    from tracegrade.history.promote.chosen import recorded
    from tracegrade.history.promote.rule_test_files import write
    from tracegrade.queries.lists import check_run
    from tracegrade.store.open import reading_store
    from tracegrade.suites.promoted_case import SuiteFile, suite_case

    if not search.trace_ids and rule is None:
        raise click.UsageError("give TRACE_IDs, or --failing ID to take the newest traces on which that rule failed")
    path = Path(name) if name.endswith(".json") else Path("suites", f"{name}.json")
    file = SuiteFile.at(path)
    with reading_store(config.store_url, search.tenant) as connection:
        check_run(connection, run)
        made = [
            suite_case(recorded(connection, trace_id, run, None, search.tenant), rule, config.traces, not no_redact)
            for trace_id in search.of(connection, run, rule)
        ]
    added = [(case, file.add(case)) for case in made]
    if file.changed and not dry_run:
        write({path: file.text()})
    status = "would_write" if dry_run else "written"
    if output_format == "json":
        print_json(
            {
                "case": case.case,
                "suite": str(path),
                "status": status if is_new else "there",
                "redacted": case.redaction.counts,
            }
            for case, is_new in added
        )
        return
    for case, is_new in added:
        counts = counts_text(case.redaction.counts)
        print_line(f"{case.id}: {f'redacted {counts}' if is_new else f'is a case already of {path}'}")
    if file.changed:
        print_line(
            f"{'would write' if dry_run else 'wrote'} {path}; 'tracegrade rules import {path}' makes a rule of it"
        )
    if not added:
        print_line("No such traces.")
