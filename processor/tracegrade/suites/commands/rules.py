"""``tracegrade rules import`` and ``export``: suites of cases to rules, and back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import output_option, print_line
from tracegrade.cli.rule_paths import named_rules, paths_argument
from tracegrade.suites.commands.asking import Asking, asking_options


@click.command(name="import", cls=Command)
@click.argument("source")
@click.option("--id", "rule_id", default="", help="The rule's id; without it, made from the suite's name.")
@click.option("--in", "folder", default="rules", show_default=True, type=click.Path(path_type=Path), help="Where.")
@click.option(
    "--answers", metavar="FILE", help="The file with the answers of a BFCL list, if they are in a separate file."
)
@click.option("--replace", is_flag=True, help="Overwrite an existing rule of that id.")
@asking_options
def import_(source: str, rule_id: str, folder: Path, answers: str | None, replace: bool, asking: Asking) -> None:
    """Make a rule from a suite, from a BFCL list, or from the tools of an MCP server.

    SOURCE is a file ('-' for standard input), or an MCP server: its http(s) address (streamable HTTP, or SSE), or
    'stdio:COMMAND' for one that is a program; both need the extra tracegrade[mcp]. A suite is {name, tools,
    test_cases}; each test case becomes a case of the rule, with literal values. From a server's tools, a rule is made
    that checks arguments against the tools' schemas. The rule is written to imported/ID in the folder. What the rule
    does not need of the suite is kept beside it, in suite.json.
    """
    from tracegrade.suites.bfcl import import_bfcl, is_bfcl
    from tracegrade.suites.imported import read_document, read_text, write_rule
    from tracegrade.suites.mcp.tools import import_tools, is_server
    from tracegrade.suites.tool_suite import import_suite

    if is_server(source):
        imported = import_tools(asking.listed(source), source, rule_id)
    else:
        document = read_document(read_text(source))
        beside = read_document(read_text(answers)) if answers is not None else None
        if is_bfcl(document):
            imported = import_bfcl(document, "stdin" if source == "-" else Path(source).stem, rule_id, beside)
        else:
            imported = import_suite(document, rule_id)
    path = write_rule(imported, folder, replace)
    for note in imported.notes:
        print_line(f"Note: {note}.", err=True)
    print_line(f"wrote {path}")


@click.command(name="export", cls=Command)
@click.argument("name", metavar="ID|PATH")
@paths_argument
@output_option
def export(name: str, paths: Sequence[str], output: IO[str]) -> None:
    """Write the cases of a rule as a suite, which 'rules import' can read again."""
    from tracegrade.suites.bfcl import export_bfcl
    from tracegrade.suites.imported import SUITE_FILE, object_at, read_document, read_text
    from tracegrade.suites.tool_suite import export_suite

    rule_set, chosen = named_rules(name, paths)
    if len(chosen) != 1:
        raise click.UsageError(f"expected one rule, found {len(chosen)} at {name!r}")
    beside = Path(rule_set.paths[chosen[0].id]).with_name(SUITE_FILE)
    kept = object_at(read_document(read_text(str(beside))), str(beside)) if beside.exists() else {}
    suite = export_bfcl(chosen[0], kept) if "bfcl" in kept else export_suite(chosen[0], kept)
    output.write(json.dumps(suite, indent=2, ensure_ascii=False) + "\n")
