"""``tracegrade suite list``, ``show``, ``export`` and ``delete``: the suites in the store."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.access_log import note_command
from tracegrade.cli.confirm import confirm_deletion, yes_option
from tracegrade.cli.output import (
    format_option,
    print_json,
    print_line,
    print_lines,
    print_table,
    print_text,
    reports_errors,
    styled,
)
from tracegrade.cli.private_files import make_files_private
from tracegrade.cli.reading import ReadSettings, reading_options
from tracegrade.cli.tenant_option import own_tenant_option
from tracegrade.display import count, json_text, printable_json, time_text

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.store.suites import StoredSuite
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


@click.command("list")
@tenant_option
@reading_options
@format_option
@reports_errors
def list_(settings: ReadSettings, output_format: str, tenant: str) -> None:
    """List the stored suites, the one made last first.

    JSON: one suite per line, {id, name, description, tool_count, test_case_count, created_ns, updated_ns}.
    """
    from tracegrade.store.open import reading_store
    from tracegrade.store.suites import suite_heads

    with reading_store(settings.store_url) as connection:
        found = suite_heads(connection, tenant)
    if output_format == "json":
        print_json(head.to_json() for head in found)
        return
    print_table(
        "",
        ["id", "suite", "tools", "cases", "changed (UTC)", "description"],
        [
            [head.id, head.name, head.tool_count, head.case_count, time_text(head.updated_ns), head.description]
            for head in found
        ],
        empty="No suites; 'tracegrade suite import FILE' stores one.",
        whole=["id", "changed (UTC)"],
        spare=["description"],
    )


@click.command()
@click.argument("suite", metavar="SUITE")
@tenant_option
@reading_options
@format_option
@reports_errors
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
    print_table(
        "",
        ["case", "prompt", "expected", "parameters", "most turns"],
        [
            [
                case.id,
                str(case.body["prompt"]),
                _expected(case.body),
                json_text(params) if (params := case.body.get("expected_params")) is not None else None,
                case.body.get("max_rounds", DEFAULT_MAX_ROUNDS) if case.body.get("multi_turn") else None,
            ]
            for case in found.cases
        ],
        empty="No cases yet.",
        whole=["case"],
    )
    for note in notes_of(found, settings.rules):
        print_line(f"Note: {note}.")


@click.command()
@click.argument("suite", metavar="SUITE")
@click.option("-o", "--output", default=STDOUT, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--replace", is_flag=True, help="Overwrite FILE.")
@tenant_option
@reading_options
@reports_errors
def export(settings: ReadSettings, suite: str, output: str, replace: bool, tenant: str) -> None:
    """Write a stored suite, by its id or its name, as JSON: 'suite import' makes the same suite of it again."""
    from tracegrade.suites.stored import document_of

    found = _stored(settings, tenant, suite)
    write_suite(document_of(found), output, replace)
    if output != STDOUT:
        print_line(f"wrote {output}: {count(len(found.tools), 'tool')}, {count(len(found.cases), 'case')}")


@click.command()
@click.argument("suite", metavar="SUITE")
@yes_option
@tenant_option
@reading_options
@reports_errors
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
