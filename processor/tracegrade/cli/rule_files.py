"""``tracegrade rules new``: a rule written to files."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import tenant_option
from tracegrade.cli.output import EXIT_FAILED, print_how_read, print_line, print_table
from tracegrade.cli.redact import counts_text, kept_text, redaction_options
from tracegrade.cli.rule_paths import rules_at
from tracegrade.cli.rule_tests import print_results
from tracegrade.cli.settings import settings_options
from tracegrade.model.errors import TraceGradeError

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.history.new_rules.new_rule import Draft
    from tracegrade.model.trace import Trace

_WORDS = re.compile("[a-z0-9]+(-[a-z0-9]+)*")


def _print_recipes(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from tracegrade.history.new_rules.recipe import recipes

        print_table("", ["recipe", "for"], [[name, recipe.need] for name, recipe in recipes().items()])
        context.exit()


@click.command(cls=Command)
@click.argument("name", metavar="CATEGORY/ID")
@click.option("--recipe", "recipe_name", metavar="NAME", help="Begin from this recipe, and not from 'order'.")
@click.option(
    "--recipes", is_flag=True, is_eager=True, expose_value=False, callback=_print_recipes, help="List the recipes."
)
@click.option("--in", "folder", default="rules", show_default=True, type=click.Path(path_type=Path), help="Where.")
@click.option(
    "--from-trace",
    "trace",
    metavar="TRACE_ID",
    help="Expect the tool calls of this stored trace, and use the trace as a test.",
)
@click.option("--agent", metavar="NAME", help="With --from-trace: expect the calls of this agent's run alone.")
@tenant_option
@redaction_options
@settings_options
def new(
    name: str,
    recipe_name: str | None,
    folder: Path,
    trace: str | None,
    agent: str | None,
    keep: tuple[str, ...],
    no_redact: bool,
    tenant: str | None,
    config: "Config",
) -> None:
    """Write a new rule to start from: rule.yaml, tests.yaml and two traces, one that passes and one that fails.

    It is one of the recipes, for a help desk that refunds orders: put the names of your tools in it and in its traces.

    The id completes the sentence "flags ...", such as refund-without-lookup. With --from-trace, all tool calls of the
    trace are expected, of all its agents; with --agent, those of that agent's run. The stored trace is
    written with its content, what people said included, and redacted as by 'promote': e-mail addresses, phone and card
    numbers, secrets and ids of calls are replaced. Names and addresses of people are not found: read it before you
    share it.
    """
    from tracegrade.history.new_rules import new_rule
    from tracegrade.history.new_rules.recipe import recipe
    from tracegrade.pipeline.rule_tests import run_tests
    from tracegrade.plugins.installed import load_plugins

    load_plugins()
    # As other commands take it: with the folder in front.
    parts = name.removeprefix("./").removeprefix(f"{folder.as_posix()}/").rstrip("/").split("/")
    if len(parts) != 2 or not all(map(_WORDS.fullmatch, parts)):
        example = ""
        if len(parts) == 1 and _WORDS.fullmatch(parts[0]):
            example = f"; its category is missing: which folder of {folder.as_posix()}/ is it for, as in "
            example += f"{folder.as_posix()}/payments/{parts[0]}?"
        raise click.UsageError(
            f"expected CATEGORY/ID, lower-case words joined by '-', with or without {folder.as_posix()}/ in front, "
            f"found {name!r}{example}"
        )
    category, rule_id = parts
    if trace is not None and recipe_name is not None:
        raise click.UsageError("--recipe and --from-trace exclude each other: a rule begins from one of the two")
    if trace is None:
        if keep or no_redact or tenant or agent:
            raise click.UsageError("--agent, --keep, --no-redact and --tenant are for --from-trace")
        draft = new_rule.from_recipe(rule_id, recipe(recipe_name or "order"))
    else:
        draft = _from_stored(rule_id, trace, agent, config, tenant, keep, not no_redact)
    written = new_rule.write(folder / category / rule_id, draft)
    for path in written:
        print_line(f"wrote {path}")
    (rule,) = rules_at([str(written[0])], config.rules.reading).rules
    results = list(run_tests(rule, written[0], config.traces))
    print_results(results)
    if any(result.failure for result in results):
        sys.exit(EXIT_FAILED)


def _from_stored(
    rule_id: str,
    named: str,
    agent: str | None,
    config: "Config",
    tenant: str | None,
    keep: "Sequence[str]",
    redacts: bool,
) -> "Draft":
    from tracegrade.codec.kept_spans import trace_of
    from tracegrade.extract.extract import extract
    from tracegrade.history.new_rules import new_rule
    from tracegrade.history.promote.redacted import Redacted, redacted
    from tracegrade.otlp.from_spans import requests_of
    from tracegrade.otlp.json import to_json
    from tracegrade.rule.tool_aliases import ToolAliases
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import stored_traces

    with reading_store(config.store_url, tenant) as connection:
        trace_id = trace_id_named(connection, named)
        found = stored_traces(connection, trace_id)
    if not found:
        raise TraceGradeError(f"trace {trace_id.hex()} is not in the store; 'tracegrade traces list' shows all")

    def drafted(trace: "Trace") -> "Draft":
        requests = [to_json(request) for request in requests_of(trace)]
        return new_rule.from_trace(rule_id, extract(trace, ToolAliases(config.traces.tool_aliases)), requests, agent)

    trace = trace_of(found[0])
    print_how_read(extract(trace))  # the rule expects the calls that were read, which may not be all
    rule = drafted(trace).rule
    result = Redacted([trace])
    if redacts:
        result = redacted([trace], keep, lambda traces: drafted(traces[0]).rule == rule, rule_id)
        print_line(f"redacted {counts_text(result.counts)}")
        if result.kept:
            print_line(kept_text(result.kept))
    return drafted(result.traces[0])
