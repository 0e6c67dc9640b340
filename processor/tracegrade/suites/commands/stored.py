"""``tracegrade suite list``, ``show``, ``export``, ``delete`` and ``import``: suites in the store."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import confirm_deletion, note_command, own_tenant_option, yes_option
from tracegrade.cli.output import (
    format_option,
    print_json,
    print_line,
    print_lines,
    print_rows,
    print_table,
    print_text,
    styled,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import ReadSettings, reading_options
from tracegrade.display import count, json_text, printable_json, time_text
from tracegrade.suites.commands.asking import Asking, asking_options

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.model.json_value import JsonValue
    from tracegrade.suites.mcp.tools import ToolSuite
    from tracegrade.suites.store.suites import StoredSuite
    from tracegrade.suites.suite import Suite

STDOUT = "-"

tenant_option = own_tenant_option("Whose suites.")


def named_suite(written: str, rule_paths: Sequence[str], config: "Config", tenant: str) -> "Suite":
    """The suite that a command was given: a path, or else the id or the name of a stored one of `tenant`.

    Raises:
        SuiteError: no suite, several of that name, or a case that cannot be run.
        FileError: a rule that cannot be read.
    """
    from tracegrade.store.errors import StoreError
    from tracegrade.store.open import reading_store
    from tracegrade.suites.imported import SuiteError
    from tracegrade.suites.keeping import NoSuchSuite, suite_called
    from tracegrade.suites.stored import runnable_suite
    from tracegrade.suites.suite import load_suite

    if _is_path(written):
        return load_suite(written, rule_paths, config.rules.reading)
    try:
        with reading_store(config.store_url) as connection:
            stored = suite_called(connection, tenant, written)
    except (NoSuchSuite, StoreError) as error:
        raise SuiteError(f"{written}: there is no such file, and it names no stored suite: {error}") from None
    return runnable_suite(stored, rule_paths, config.rules.reading)


def _is_path(written: str) -> bool:
    return written == STDOUT or written.endswith(".json") or written.startswith("builtin:") or Path(written).exists()


def write_suite(document: Mapping[str, Any], to: str, replace: bool) -> None:
    """Write a suite as JSON to the file `to`, or to standard output.

    Raises:
        SuiteError: the file exists, unless it may be replaced, or cannot be written.
    """
    from tracegrade.suites.imported import SuiteError

    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if to == STDOUT:
        print_lines("\n".join(map(printable_json, text.removesuffix("\n").split("\n"))))
        return
    if Path(to).exists() and not replace:
        raise SuiteError(f"{to}: exists already; --replace overwrites it, with the cases that it has")
    try:
        Path(to).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SuiteError(f"{to}: cannot be written: {error.strerror}") from None


@click.command("list", cls=Command)
@tenant_option
@reading_options
@format_option
def list_(settings: ReadSettings, output_format: str, tenant: str) -> None:
    """List the stored suites, the one made last first.

    JSON: one suite per line, {id, name, description, tool_count, test_case_count, created_ns, updated_ns}.
    """
    from tracegrade.store.open import reading_store
    from tracegrade.suites.store.suites import suite_heads

    with reading_store(settings.store_url) as connection:
        found = suite_heads(connection, tenant)
    if output_format == "json":
        print_json(head.to_json() for head in found)
        return
    print_rows(
        (
            {
                "id": head.id,
                "suite": head.name,
                "tools": head.tool_count,
                "cases": head.test_case_count,
                "changed (UTC)": time_text(head.updated_ns),
                "description": head.description,
            }
            for head in found
        ),
        empty="No suites; 'tracegrade suite import FILE' stores one.",
        whole=["id", "changed (UTC)"],
        spare=["description"],
    )


@click.command(cls=Command)
@click.argument("suite", metavar="SUITE")
@tenant_option
@reading_options
@format_option
def show(settings: ReadSettings, output_format: str, tenant: str, suite: str) -> None:
    """Show a stored suite, by its id or its name: what models are told, its tools, and its cases.

    JSON: what 'suite export' gives, with its id, and 'notes': what of it would be refused if it were imported or run
    now.
    """
    from tracegrade.suites.stored import document_of, notes_of
    from tracegrade.suites.suite import DEFAULT_MAX_ROUNDS

    found = _stored(settings, tenant, suite)
    if output_format == "json":
        print_json([{"id": found.id, **document_of(found), "notes": notes_of(found, settings.rules)}])
        return
    print_text(styled(found.name, "bold") + styled(f"  {found.id}"))
    if found.description:
        print_line(f"  {found.description}")
    print_line(f"  made {time_text(found.created_ns)} UTC, changed {time_text(found.updated_ns)} UTC")
    if found.system_prompt:
        print_line(f"  system prompt: {found.system_prompt}")
    print_line()
    functions = [function for tool in found.tools if isinstance(function := tool["function"], dict)]
    print_table(
        "",
        ["tool", "parameters", "description"],
        [[str(tool["name"]), _parameters(tool), tool.get("description")] for tool in functions],
        empty="No tools.",
        whole=["tool"],
        spare=["description"],
    )
    print_line()
    print_rows(
        (
            {
                "case": case.id,
                "prompt": str(case.body["prompt"]),
                "expected": _expected(case.body),
                "parameters": json_text(params) if (params := case.body.get("expected_params")) is not None else None,
                "most turns": case.body.get("max_rounds", DEFAULT_MAX_ROUNDS) if case.body.get("multi_turn") else None,
            }
            for case in found.cases
        ),
        empty="No cases yet.",
        whole=["case"],
    )
    for note in notes_of(found, settings.rules):
        print_line(f"Note: {note}.")


@click.command(cls=Command)
@click.argument("suite", metavar="SUITE")
@click.option("-o", "--output", default=STDOUT, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--replace", is_flag=True, help="Overwrite FILE.")
@tenant_option
@reading_options
def export(settings: ReadSettings, suite: str, output: str, replace: bool, tenant: str) -> None:
    """Write a stored suite, by its id or its name, as JSON: 'suite import' makes the same suite of it again."""
    from tracegrade.suites.stored import document_of

    found = _stored(settings, tenant, suite)
    write_suite(document_of(found), output, replace)
    if output != STDOUT:
        print_line(f"wrote {output}: {count(len(found.tools), 'tool')}, {count(len(found.cases), 'case')}")


@click.command(cls=Command)
@click.argument("suite", metavar="SUITE")
@yes_option
@tenant_option
@reading_options
def delete(settings: ReadSettings, suite: str, yes: bool, tenant: str) -> None:
    """Delete a stored suite, by its id or its name, with its cases. Runs that were made of it stay."""
    from tracegrade.suites.keeping import remove_suite

    found = _stored(settings, tenant, suite)
    what = f"suite {found.name} ({found.id}) with {count(len(found.cases), 'case')}"
    confirm_deletion(what, yes)
    make_files_private()
    note_command(settings.whole(), "suite delete", "admin", tenant, suite_id=found.id)
    remove_suite(settings.store_url, tenant, found.id)
    print_line(f"Deleted {what}.")


def _stored(settings: ReadSettings, tenant: str, suite: str) -> "StoredSuite":
    from tracegrade.store.open import reading_store
    from tracegrade.suites.keeping import suite_called

    with reading_store(settings.store_url) as connection:
        return suite_called(connection, tenant, suite)


def _parameters(tool: Mapping[str, Any]) -> list[str]:
    """The names of a tool's parameters; a star is on those that have to be given."""
    schema = tool.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    needed = required if isinstance(required, list) else []
    return [f"{name}*" if name in needed else name for name in properties] if isinstance(properties, dict) else []


def _expected(body: Mapping[str, Any]) -> str:
    expected = body.get("expected_tool")
    if expected is None:
        return "no call"
    return " or ".join(map(str, expected)) if isinstance(expected, list) else str(expected)


@click.command(name="import", cls=Command)
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--mcp",
    "server",
    metavar="ADDRESS",
    help="The MCP server: its http(s) address, of streamable HTTP or of SSE; or 'stdio:COMMAND' for a program. Needs "
    "the extra tracegrade[mcp].",
)
@click.option(
    "--to",
    "-o",
    "--output",
    "to",
    metavar="PATH",
    help="Of a server: write the suite to this file, or into this folder, instead of storing it; '-' is standard "
    "output.",
)
@click.option("--name", default="", help="The suite's name; without it, the file's or the server's own.")
@click.option(
    "--replace",
    is_flag=False,
    flag_value="",
    metavar="[SUITE]",
    help="Replace the tools and cases of the stored SUITE, named by its id or its name, by those of FILE: it keeps its "
    "id and its experiments. Without SUITE, overwrite the file of --to, with the cases that it has.",
)
@tenant_option
@asking_options
def import_(
    file: str | None,
    server: str | None,
    to: str | None,
    name: str,
    replace: str | None,
    tenant: str,
    asking: Asking,
) -> None:
    """Store a suite from FILE ('-' is standard input), or from the tools of an MCP server, and then add cases.

    A stored suite is on the page and in the API, and 'suite run' takes its id or its name. Each import makes a new one,
    unless --replace names one to update: use that in CI, so that runs stay in one experiment.

    A server is asked for its tools; no tool is called. Redirects are not followed, and no proxy is used. Link-local
    addresses and the listeners in the settings are never asked; private and loopback ones only if --allow-host or
    suites.mcp_hosts names their host.
    """
    if (file is None) == (server is None):
        raise click.UsageError("expected a file, or --mcp ADDRESS, and not both")
    if file is not None:
        if to is not None:
            raise click.UsageError("--to writes what a server lists; FILE is stored")
        if replace == "":
            raise click.UsageError("--replace: expected the stored suite that FILE replaces, by its id or its name")
        _import_file(file, name, replace, tenant, asking)
    elif server is not None:
        if replace:
            raise click.UsageError("--replace SUITE is for FILE: what a server lists has no cases to replace")
        _import_server(server, to, name, replace is not None, tenant, asking)


def _import_file(file: str, name: str, replaced: str | None, tenant: str, asking: Asking) -> None:
    from tracegrade.suites.imported import SuiteError, read_document, read_text

    try:
        document = read_document(read_text(file))
        if name and isinstance(document, dict):
            document["name"] = name
        stored = _add(document, tenant, asking, replaced=replaced)
    except SuiteError as error:
        raise SuiteError(str(error) if str(error).startswith(f"{file}: ") else f"{file}: {error}") from None
    if stored.cases:
        print_line(f"Next, run it with a model: tracegrade suite run {stored.id} --model PROVIDER::MODEL")


def _import_server(server: str, to: str | None, name: str, replace: bool, tenant: str, asking: Asking) -> None:
    from tracegrade.suites.imported import SuiteError, rule_id_of
    from tracegrade.suites.mcp.tools import is_server, suite_of

    if not is_server(server):
        raise click.UsageError(f"--mcp: expected http://..., https://... or stdio:COMMAND, found {server!r}")
    is_folder = to is not None and to != STDOUT and (to.endswith("/") or Path(to).is_dir())
    if to not in (None, STDOUT) and not is_folder and Path(to).exists() and not replace:
        raise SuiteError(f"{to}: exists already; --replace overwrites it, with the cases that it has")
    found = suite_of(asking.listed(server), server, name)
    for note in found.notes:
        _say(note)
    if to is None:
        _add(found.suite, tenant, asking, found.notes)
        print_line(f"Next, add cases on the page, or by the API, such as {_example(found)}")
        return
    if is_folder:
        to = str(Path(to) / f"{rule_id_of(str(found.suite['name']))}.json")
    write_suite(found.suite, to, replace)
    if to != STDOUT:
        tools = found.suite["tools"]
        print_line(f"wrote {to}: {count(len(tools) if isinstance(tools, list) else 0, 'tool')}, no cases yet")
        print_line(f'Next, add cases to "test_cases", such as {_example(found)}')


def _add(
    document: "JsonValue", tenant: str, asking: Asking, said: Sequence[str] = (), replaced: str | None = None
) -> "StoredSuite":
    """Store a suite, in place of the one `replaced`, and say what was stored; notes that were `said` are not repeated.

    Raises:
        SuiteError: the document is no suite, or several are called as the one to replace.
        NoSuchSuite: there is none to replace.
    """
    from tracegrade.store.open import reading_store
    from tracegrade.suites.keeping import add_suite, replace_suite, suite_called
    from tracegrade.suites.store.suites import suites_called
    from tracegrade.suites.stored import unset_needs

    make_files_private()
    config = asking.config()
    store_url = config.store_url
    if replaced is None:
        read = add_suite(store_url, tenant, document, time.time_ns())
    else:
        with reading_store(store_url) as connection:
            id_ = suite_called(connection, tenant, replaced).id
        read = replace_suite(store_url, tenant, id_, document, time.time_ns())
    suite = read.suite
    for note in (*read.notes, *unset_needs(suite.cases, config.rules.reading)):
        if note not in said:
            _say(note)
    how = "stored" if replaced is None else "replaced"
    print_line(
        f"{how} {suite.name} as {suite.id}: {count(len(suite.tools), 'tool')}, {count(len(suite.cases), 'case')}"
    )
    with reading_store(store_url) as connection:
        same = suites_called(connection, tenant, suite.name)
    if len(same) > 1:
        print_line(f"Note: {len(same)} suites are called {suite.name!r} now: name them by their ids.", err=True)
    return suite


def _say(note: str) -> None:
    print_line(f"Note: {note}" if note.endswith("?") else f"Note: {note}.", err=True)


def _example(found: "ToolSuite") -> str:
    return json.dumps(found.example, ensure_ascii=False)
