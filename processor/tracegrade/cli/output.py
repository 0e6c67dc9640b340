"""Text out: tables on a terminal, one JSON object a line for machines, progress, errors with exit codes."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import orjson

from tracegrade.model.errors import TraceGradeError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANNOT_TELL = 3

P = ParamSpec("P")
R = TypeVar("R")

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table, or one JSON object per line.",
)


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object per line, integers exact at any size."""
    for row in rows:
        click.echo(json_text(row))


def json_text(value: Any) -> str:
    """Compact JSON; orjson where it can, the standard library for integers beyond 64 bits and lone surrogates."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing"
) -> None:
    """A table for people; `empty` is said when there are no rows."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # On a pipe rich would fall back to 80 columns and cut ids that scripts look for.
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(title=title or None, box=box.SIMPLE, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    count = 0
    for row in rows:
        count += 1
        table.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    if count:
        console.print(table)
    else:
        click.echo(empty)


def count(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def outcome_text(outcome: str) -> Any:
    """An outcome in its colour and with a sign, so that it reads without colour too."""
    from rich.text import Text

    sign, style = {
        "pass": ("✓", "green"),
        "fail": ("✗", "bold red"),
        "error": ("!", "bold magenta"),
        "not_evaluable": ("–", "yellow"),
    }.get(outcome, (" ", ""))
    return Text(f"{sign} {outcome}", style=style)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error when that is a terminal; yields ``advance(steps)``."""
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def reports_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a `TraceGradeError` into its message on standard error and exit code 2."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TraceGradeError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(EXIT_USAGE)

    return wrapper
