"""Groups of commands whose members are imported when they are used, and which parts can add to; how help is shown."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from tracegrade.model.errors import TraceGradeError
from tracegrade.part import NeedsPart, load, missing, parts

_MORE_OPTIONS = frozenset(
    {
        *("-c", "--data-dir", "--tenant", "--jobs", "--journal-mib", "--traces", "--wait", "--help"),
        *("--fail-under-overall", "--min-results", "--require", "--margin", "--allow-within-margin", "--no-gate"),
        *("--run", "--label", "--trace-id", "--rates-only", "--no-behaviour", "--force", "--keep-runs"),
        *("--agent-name", "--agent-header", "--agent-timeout", "--agent-spans-within", "--listen", "--max-parallel"),
        *(
            "--allow-host",
            "--header",
            "--answers",
            "--in",
            "--id",
            "--keep",
            "--no-redact",
            "--by-start-time",
            "--every",
        ),
        *("--semantic-model", "--allow-code", "--hold", "--grace", "--cert", "--key", "--token-file", "--timeout"),
    }
)
"""Options that few need, by name: help shows them last. A command whose options are all of these has one list."""


class Command(click.Command):
    """A command whose help has the options that most people need first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        records: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                records[not _MORE_OPTIONS.isdisjoint(param.opts)].append(record)
        first, more = records
        for heading, rows in (("Options", first), ("More options", more)) if first else (("Options", more),):
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Group(click.Group):
    """A group: its own commands, those that are named to it, and those of the parts that are there."""

    command_class = Command

    def __init__(
        self,
        *given: Any,
        path: str = "",
        named: Mapping[str, tuple[str, str]] | None = None,
        headings: Mapping[str, str] | None = None,
        guessed: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Make the group.

        Args:
            given: as of `click.Group`, and so is `more`.
            path: what follows ``tracegrade`` in its command lines.
            named: name -> (``module:name`` of a command, one line of help), in the order shown.
            headings: what stands above a named command, and all up to the next one, in the help.
            guessed: names of no command that people try, and what to do in their place.
        """
        super().__init__(*given, **more)
        self._path = path
        self._named = dict(named or {})
        self._headings = dict(headings or {})
        self._guessed = dict(guessed or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order shown."""
        return list(self._named) or sorted({*self.commands, *self._of_parts()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; one of a part that is not there is refused."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        target = self._named[cmd_name][0] if cmd_name in self._named else self._of_parts().get(cmd_name)
        if target is None:
            path = f"{self._path} {cmd_name}".strip()
            if (part := missing(command=path)) is not None:
                raise click.UsageError(str(NeedsPart(repr(path), part)), ctx)
            return None
        found: click.Command = load(target)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command; a `TraceGradeError` becomes its message on standard error and exit code 2."""
        try:
            return super().invoke(ctx)
        except TraceGradeError as error:
            from tracegrade.cli.output import EXIT_USAGE, print_lines

            print_lines(f"Error: {error}", err=True)
            sys.exit(EXIT_USAGE)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for; of one that is not there, say which one is meant."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        from tracegrade.document.problem import did_you_mean

        guessed = self._guessed.get(name)
        instead = did_you_mean(name, self.list_commands(ctx)) if guessed is None else f": {guessed}"
        raise click.UsageError(f"No such command {name!r}{instead}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List named commands without importing them."""
        if not self._named:
            super().format_commands(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, text) in self._named.items():
            heading = self._headings.get(name, heading)
            sections.setdefault(heading, []).append((name, text))
        widest = max(map(len, self._named))
        for heading, commands in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in commands])

    def _of_parts(self) -> dict[str, str]:
        """Name -> target of the commands that parts add to this group."""
        paths = [(command.path.rpartition(" "), command.target) for part in parts() for command in part.commands]
        return {name: target for (group, _, name), target in paths if group == self._path}
