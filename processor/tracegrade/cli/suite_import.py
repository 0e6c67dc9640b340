"""``tracegrade suite import``: a new suite from the tools of an MCP server."""

import json
from pathlib import Path

import click

from tracegrade.cli.asking_servers import Asking, asking_options
from tracegrade.cli.output import print_line, print_lines, reports_errors
from tracegrade.display import count, printable_json

_STDOUT = "-"


@click.command(name="import")
@click.option(
    "--mcp",
    "server",
    required=True,
    metavar="ADDRESS",
    help="The MCP server: its http(s) address, of streamable HTTP or of SSE; or 'stdio:COMMAND' for a program, which "
    "needs the extra tracegrade[mcp].",
)
@click.option("-o", "--output", default=_STDOUT, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--name", default="", help="The suite's name; without it, the server's own.")
@click.option("--replace", is_flag=True, help="Overwrite FILE, with the cases that it has.")
@asking_options
@reports_errors
def import_(server: str, output: str, name: str, replace: bool, asking: Asking) -> None:
    """Make a suite of the tools of an MCP server, to write cases for.

    The server is asked for its tools; no tool is called. What is written is the suite as JSON, with its tools and no
    cases: add them to test_cases, then make a rule of it with 'rules import'.

    Redirects are not followed, and no proxy is used. Link-local addresses and the listeners in the settings are never
    asked; private and loopback ones only if --allow-host or suites.mcp_hosts names their host.
    """
    from tracegrade.suites.imported import SuiteError
    from tracegrade.suites.mcp.tools import is_server, suite_of

    if not is_server(server):
        raise click.UsageError(f"--mcp: expected http://..., https://... or stdio:COMMAND, found {server!r}")
    if output != _STDOUT and Path(output).exists() and not replace:
        raise SuiteError(f"{output}: exists already; --replace overwrites it, with the cases that it has")
    found = suite_of(asking.listed(server), server, name)
    text = json.dumps(found.suite, indent=2, ensure_ascii=False) + "\n"
    if output == _STDOUT:
        print_lines("\n".join(map(printable_json, text.removesuffix("\n").split("\n"))))
    else:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise SuiteError(f"{output}: cannot be written: {error.strerror}") from None
    for note in found.notes:
        print_line(f"Note: {note}.", err=True)
    if output != _STDOUT:
        tools = found.suite["tools"]
        print_line(f"wrote {output}: {count(len(tools) if isinstance(tools, list) else 0, 'tool')}, no cases yet")
        example = json.dumps(found.example, ensure_ascii=False)
        print_line(f'Next, add cases to "test_cases", such as {example}')
