"""``tracegrade --help``: commands stand under what people want to do."""

import re

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
