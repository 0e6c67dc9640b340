"""Text out: tables on a terminal, one JSON object a line for machines, progress, errors with exit codes."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from tracegrade.display import count, json_text, printable, printable_json, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    from tracegrade.model.extraction import Extraction
    from tracegrade.otlp.files.report import SourceReport

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANNOT_TELL = 3

_GAP = 2  # between the columns of a table
_READABLE = 14  # columns in which names can be read though they are broken
_READABLE_TEXT = 30  # columns in which the beginning of a sentence says something
# Of a pipe, where COLUMNS does not say it; rich would fall back to 80 columns and leave out what scripts look for.
_PIPE_WIDTH = 200
_NARROWEST = 20

P = ParamSpec("P")
R = TypeVar("R")


def format_of(formats: Sequence[str], meaning: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """The option ``--format``: one of `formats`, the first unless set; `meaning` is its help."""
    return click.option(
        "--format", "output_format", type=click.Choice(formats), default=formats[0], show_default=True, help=meaning
    )


format_option = format_of(["table", "json"], "A table, or one JSON object per line.")

output_option = click.option(
    "-o",
    "--output",
    type=click.File("w", encoding="utf-8", lazy=True),
    default="-",
    metavar="FILE",
    help="Write to this file instead of standard output.",
)


def print_line(text: str = "", *, err: bool = False) -> None:
    r"""`text` on one line, made safe for a terminal; line ends within it are shown as ``\n``."""
    click.echo(printable(text), file=_stderr(err))


def print_lines(text: str, *, err: bool = False) -> None:
    """As `print_line`, of a text of several lines; what others wrote may look like a line of ours in it."""
    click.echo(printable_lines(text), file=_stderr(err))


def _stderr(wanted: bool) -> IO[str] | None:
    """Standard error as it is now: while a bar is shown, what puts lines above it, behind which click would look."""
    return sys.stderr if wanted else None


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object per line, integers exact at any size."""
    for row in rows:
        click.echo(printable_json(json_text(row)))


@dataclass(frozen=True, slots=True)
class Styled:
    """Text in parts, each with the style that it has on a terminal, as rich names it; "" for none."""

    parts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)

    def __add__(self, other: "Styled") -> "Styled":
        return Styled(self.parts + other.parts)


def styled(text: str, style: str = "") -> Styled:
    """`text` in one style."""
    return Styled(((text, style),))


def print_text(text: Styled) -> None:
    """A line for people, broken where the terminal, or a pipe's reader, ends; its text as `print_line` shows it."""
    text = Styled(tuple((printable(part), style) for part, style in text.parts))
    if not _has_styles() and _fits(line := str(text), _pipe_width()):
        click.echo(line)
    else:
        print_rich(_for_rich(text))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str = "nothing",
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
    cut: str = "",
) -> None:
    """A table for people; on a terminal too narrow for one, its rows as blocks.

    Args:
        title: stands above it, "" for none.
        columns: their headings.
        rows: their cells; texts of strangers are made safe; `Styled` ones keep their styles, and all their lines.
        empty: what is said when there are no rows.
        whole: columns never broken into lines: ids that people copy, times.
        spare: columns that a narrow terminal does not show, the first to go first.
        cut: a column of long texts, of which as much is shown as there is room for; "" for none.
    """
    shown = [[_printable(cell if isinstance(cell, Styled) else styled(_cell(cell))) for cell in row] for row in rows]
    if not shown:
        click.echo(empty)
        return
    width = _console().width if sys.stdout.isatty() else _pipe_width()
    heading = [styled(column, "bold") for column in columns]
    widths = _widths([heading, *shown])
    long = columns.index(cut) if cut else None
    if long is not None:
        widths[long] = min(widths[long], _READABLE_TEXT)
    chosen = _fitting(widths, [columns.index(name) for name in spare], width)
    if long in chosen:
        room = width - sum(widths[other] + _GAP for other in chosen if other != long) - _GAP
        shown = [[_cut(cell, room) if number == long else cell for number, cell in enumerate(row)] for row in shown]
    lines = [[row[number] for number in chosen] for row in (heading, *shown)]
    if title or (laid_out := _unbroken(lines, width)) is None:
        unbroken = [columns[number] in whole for number in chosen]
        if not title and _is_cramped(lines, unbroken, width):
            print_rich(_stacked(lines, unbroken))
        else:
            print_rich(_broken(title, lines, unbroken))
    elif _has_styles():
        _console().print(_for_rich(laid_out), soft_wrap=True)
    else:
        click.echo(_without_trailing_blanks(str(laid_out)))


def print_rows(
    rows: Iterable[Mapping[str, object]],
    *,
    empty: str,
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
    cut: str = "",
) -> None:
    """A table for people, as `print_table`, of rows that name their cells: all have the same names, which head it."""
    found = list(rows)
    columns = list(found[0]) if found else []
    print_table("", columns, [list(row.values()) for row in found], empty=empty, whole=whole, spare=spare, cut=cut)


def print_rich(shown: object) -> None:
    """Print something of rich's: on a terminal as it is, into a pipe without blanks at the ends of lines."""
    console = _console()
    if sys.stdout.isatty():
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    click.echo(_without_trailing_blanks(captured.get()), nl=False)


def _without_trailing_blanks(text: str) -> str:
    return "\n".join(line.rstrip(" ") for line in text.split("\n"))


def _pipe_width() -> int:
    """How wide text into a pipe may be: as COLUMNS says, which CI systems and people set for their logs."""
    said = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(said)) if said.isascii() and said.isdigit() and int(said) else _PIPE_WIDTH


def _printable(cell: Styled) -> Styled:
    return Styled(tuple((printable_lines(text), style) for text, style in cell.parts))


def _has_styles() -> bool:
    """Whether styles are shown: without them most of rich is not needed, and takes a tenth of a command to import."""
    return sys.stdout.isatty() or "FORCE_COLOR" in os.environ


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _pipe_width(), highlight=False)


def _for_rich(text: Styled) -> "Text":
    from rich.text import Text

    return Text.assemble(*text.parts)


def _fits(line: str, width: int) -> bool:
    """Whether `line` needs no breaking into lines, nor has line ends of its own."""
    from rich.cells import cell_len

    return line.isprintable() and cell_len(line) <= width


def _fitting(widths: Sequence[int], spare: Iterable[int], width: int) -> list[int]:
    """The columns to show: all of them, or as few of `spare` left out as makes the rest fit, if it can."""
    chosen = list(range(len(widths)))
    for number in spare:
        if sum(widths[other] + _GAP for other in chosen) <= width:
            break
        chosen.remove(number)
    return chosen


def _cut(cell: Styled, room: int) -> Styled:
    """What of a text, on one line, fits into `room` columns; of any, so much that it can be read."""
    from rich.cells import cell_len, set_cell_size

    text = " ".join(str(cell).split())
    room = max(room, _READABLE_TEXT)
    return cell if cell_len(text) <= room else styled(set_cell_size(text, room - 1) + "…")


def _widths(lines: Iterable[Sequence[Styled]]) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(str(cell)) for cell in cells) for cells in zip(*lines, strict=True)]


def _unbroken(lines: Sequence[Sequence[Styled]], width: int) -> Styled | None:
    """The table as one text, as `_broken` lays it out; None when a line of it does not fit, or has to be broken.

    Of a hundred lines rich takes 60 ms to find out that none needs breaking.
    """
    from rich.cells import cell_len

    *others, last = _widths(lines)
    widths = [*others, max(1, last)]
    total = sum(widths) + _GAP * len(widths)
    if total > width or not all(str(cell).isprintable() for line in lines for cell in line):
        return None
    blank = styled(" " * total)
    text = [blank]
    for line in lines:
        parts = [(" ", "")]
        for cell, room in zip(line, widths, strict=True):
            parts += [*cell.parts, (" " * (room - cell_len(str(cell)) + _GAP), "")]
        parts[-1] = (parts[-1][0][1:], "")
        text.append(Styled(tuple(parts)))
    text[2:2] = [styled(f" {'─' * (total - 2)} ")]
    end = ("\n", "")
    return Styled(tuple(part for line in text for part in (*line.parts, end)) + blank.parts)


def _broken(title: str, lines: Sequence[Sequence[Styled]], whole: Sequence[bool]) -> "Table":
    """The table for a terminal that is too narrow: cells go on in further lines, but those of `whole` columns."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    heading, *rows = lines
    for name, unbroken in zip(heading, whole, strict=True):
        table.add_column(_for_rich(name), overflow="fold", no_wrap=unbroken)
    for row in rows:
        table.add_row(*map(_for_rich, row))
    return table


def _is_cramped(lines: Sequence[Sequence[Styled]], whole: Sequence[bool], width: int) -> bool:
    """Whether columns of the table would be too narrow to read."""
    needed = [room if unbroken else min(room, _READABLE) for room, unbroken in zip(_widths(lines), whole, strict=True)]
    return sum(needed) + _GAP * len(needed) > width


def _stacked(lines: Sequence[Sequence[Styled]], whole: Sequence[bool]) -> "Group":
    """Each row as a block: the columns that are not broken side by side, the others named below."""
    from rich.console import Group
    from rich.padding import Padding

    heading, *rows = lines
    widths = _widths(rows)
    blocks: list[Any] = [""]
    for row in rows:
        first, named = styled(""), styled("")
        for name, cell, room, unbroken in zip(heading, row, widths, whole, strict=True):
            if unbroken:
                first += cell + styled(" " * (room - len(str(cell)) + _GAP))
            elif str(cell):
                named += styled(f"{'  ' if str(named) else ''}{name} ", "dim") + cell
        blocks += [Padding(_for_rich(text), (0, 0, 0, left)) for text, left in ((first, 1), (named, 3)) if str(text)]
    return Group(*blocks, "")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a README or a CI summary; what would end a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_markdown_cell(cell) for cell in line) + " |" for line in lines)


def _markdown_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def tool_text(depth: int, name: str, raw_name: str) -> str:
    """A call's name, indented by its depth, and the one it came under where that is another."""
    return "  " * depth + name + (f" (came as {raw_name})" if raw_name != name else "")


def outcome_text(outcome: str) -> Styled:
    """An outcome in its colour and with a sign, so that it reads without colour too."""
    sign, style = {
        "pass": ("✓", "green"),
        "fail": ("✗", "bold red"),
        "error": ("!", "bold magenta"),
        "not_evaluable": ("–", "yellow"),
    }.get(outcome, (" ", ""))
    return styled(f"{sign} {outcome}", style)


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
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(printable(label), total=total)
        yield lambda steps: bar.advance(task, steps)


def print_source_report(report: "SourceReport", output_format: str) -> None:
    """Print a line for each file of which something was not read, and of files of several formats, which is which.

    Where nothing of a trace was read of any, one line says so, with the reason of each file.

    With `output_format` json, a line is the object of a file: ``{file, read_as, not_read, problems, repaired_texts,
    message}``.
    """
    if output_format == "json":
        for file in report.with_remarks:
            print_line(json_text(file.to_json()), err=True)
    elif not report.nothing_read:
        for line in report.warnings:
            print_line(f"Warning: {line}", err=True)
        for line in report.format_lines:
            print_line(line, err=True)
    if report.nothing_read:
        print_line(f"Error: {report.nothing_read}", err=True)


def end_if_nothing_read(report: "SourceReport") -> None:
    """End with exit code 3 where the files of a command hold nothing of a trace."""
    if report.nothing_read:
        sys.exit(EXIT_CANNOT_TELL)


_MAX_UNREAD = 3


def print_how_read(extraction: "Extraction") -> None:
    """Say which calls of the trace were read by shape, and which spans were not read; nothing where all is certain."""
    from tracegrade.extract.how_read import BY_SHAPE_ADVICE, by_shape, spans_not_read

    if extraction.dialect_error:
        print_line(f"  read without the dialects of installed packages, one of which raised {extraction.dialect_error}")
    for found in by_shape([extraction]):
        print_line(f"  {found.sentence}; {BY_SHAPE_ADVICE}")
    unread = spans_not_read(extraction)
    for span in unread[:_MAX_UNREAD]:
        print_line(f"  {span.sentence}; {span.advice}")
    if (more := len(unread) - _MAX_UNREAD) > 0:
        print_line(f"  and {count(more, 'more span')} not read: 'tracegrade doctor' counts them by scope")
