"""One page a command and its subcommands, with their help; and the list of them all."""

from collections.abc import Iterator
from pathlib import Path

import click

from tracegrade.cli import main
from tracegrade.cli.output import markdown_table
from tracegrade.cli.registry import HEADINGS

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "commands"
_WIDTH = 80


def pages() -> dict[Path, str]:
    """Every page, by its file."""
    texts: dict[str, list[str]] = {}
    for path, command, context in commands():
        about = f"{command.get_short_help_str(200)}\n\n" if path.count(" ") == 1 else ""
        help_text = f"{'#' * path.count(' ')} {path}\n\n{about}```text\n{command.get_help(context)}\n```\n"
        texts.setdefault(_page_of(path), ["<!-- Written by docs/generate.py from the code. -->\n"]).append(help_text)
    return {FOLDER / name: "\n".join(parts) for name, parts in texts.items()}


def tables_by_heading() -> str:
    """A table of commands for each heading of ``tracegrade --help``."""
    sections: dict[str, list[tuple[str, str]]] = {}
    heading = ""
    for path, command, _ in commands():
        heading = HEADINGS.get(path.partition(" ")[2], heading)
        anchor = f"#{path.replace(' ', '-')}" if path.count(" ") > 1 else ""
        row = (f"[`{path}`]({_page_of(path)}{anchor})", command.get_short_help_str(200))
        sections.setdefault(heading, []).append(row)
    return "\n\n".join(f"## {name}\n\n{markdown_table(['command', 'does'], rows)}" for name, rows in sections.items())


def commands() -> list[tuple[str, click.Command, click.Context]]:
    """Every command by its whole name, such as ``tracegrade rules check``."""
    return list(_commands(main, "tracegrade", None))


def _page_of(path: str) -> str:
    return f"{path.split()[1]}.md"


def _commands(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, parent=parent, info_name=name, terminal_width=_WIDTH, **command.context_settings)
    if parent is not None:
        yield context.command_path, command, context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _commands(found, child, context)
