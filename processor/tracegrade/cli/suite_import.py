"""``tracegrade suite import``: a new suite, from a file or from the tools of an MCP server."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.asking_servers import Asking, asking_options
from tracegrade.cli.output import print_line, reports_errors
from tracegrade.cli.private_files import make_files_private
from tracegrade.cli.stored_suites import STDOUT, tenant_option, write_suite
from tracegrade.display import count

if TYPE_CHECKING:
    from tracegrade.model.json_value import JsonValue
    from tracegrade.store.suites import StoredSuite
    from tracegrade.suites.mcp.tools import ToolSuite


@click.command(name="import")
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--mcp",
    "server",
    metavar="ADDRESS",
    help="The MCP server: its http(s) address, of streamable HTTP or of SSE; or 'stdio:COMMAND' for a program, which "
    "needs the extra tracegrade[mcp].",
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
@reports_errors
def import_(
    file: str | None,
    server: str | None,
    to: str | None,
    name: str,
    replace: str | None,
    tenant: str,
    asking: Asking,
) -> None:
    """Store a suite: of FILE ('-' is standard input), or of the tools of an MCP server, to write cases for.

    A stored suite is on the page and in the API, and 'suite run' takes its id or its name. Each import makes a new one,
    unless --replace names one: CI imports a suite from git so, and its runs stay in one experiment.

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
        stored = _stored(document, tenant, asking, replaced=replaced)
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
        _stored(found.suite, tenant, asking, found.notes)
        print_line(f"Next, add cases on the page, or by the API, such as {_example(found)}")
        return
    if is_folder:
        to = str(Path(to) / f"{rule_id_of(str(found.suite['name']))}.json")
    write_suite(found.suite, to, replace)
    if to != STDOUT:
        tools = found.suite["tools"]
        print_line(f"wrote {to}: {count(len(tools) if isinstance(tools, list) else 0, 'tool')}, no cases yet")
        print_line(f'Next, add cases to "test_cases", such as {_example(found)}')


def _stored(
    document: "JsonValue", tenant: str, asking: Asking, said: Sequence[str] = (), replaced: str | None = None
) -> "StoredSuite":
    """Store a suite, in place of the one `replaced`, and say what was stored; notes that were `said` are not repeated.

    Raises:
        SuiteError: the document is no suite, or several are called as the one to replace.
        NoSuchSuite: there is none to replace.
    """
    from tracegrade.store.open import reading_store
    from tracegrade.store.suites import suites_called
    from tracegrade.suites.keeping import add_suite, replace_suite, suite_called
    from tracegrade.suites.unset import unset_needs

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
