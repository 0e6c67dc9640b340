"""``tracegrade --help``: commands stand under what people want to do."""

import re
from collections.abc import Iterator

import click
from click.testing import CliRunner

from tracegrade.cli import main
from tracegrade.cli.registry import COMMANDS


def test_every_command_stands_under_a_heading_those_that_run_it_first_and_those_of_operators_last() -> None:
    shown = CliRunner().invoke(main, ["--help"]).stdout
    sections = {
        heading: re.findall(r"^  ([a-z-]+) ", lines, re.MULTILINE)
        for heading, lines in re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", shown, re.MULTILINE)
        if heading != "Options"
    }
    assert list(sections) == ["Run", "Look at what was judged", "Write rules", "Decide about a change", "Administer"]
    assert [name for names in sections.values() for name in names] == list(COMMANDS)
    assert sections["Run"] == ["demo", "serve"]
    assert {"gate", "compare", "replay", "check"} <= {*sections["Decide about a change"]}


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    if not isinstance(command, click.Group):
        yield context.command_path, command.get_help(context)
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _commands(found, click.Context(found, parent=context, info_name=name))


def test_options_that_few_need_are_last_under_a_heading() -> None:
    few, shown = ("-c, --config", "--data-dir", "--tenant", "--jobs", "--margin", "--help"), 0
    for path, text in _commands(main, click.Context(main, info_name="tracegrade")):
        options = text[text.index("\nOptions:\n") :]
        first, heading, more = options.partition("\nMore options:\n")
        if heading:
            shown += 1
            assert not [name for name in few if re.search(rf"^  (-., )?{name}\b", first, re.MULTILINE)], path
            assert "--help" in more, path
        else:  # a command of which all are such options has one list
            assert not re.search(r"^  (-., )?--(format|rules|since|rule|to)\b", options, re.MULTILINE), path
    assert shown > 50
