"""What newcomers try, and what they are told."""

from click.testing import CliRunner

from build import each
from tracegrade.cli import main
from tracegrade.cli.registry import COMMANDS, GUESSED
from tracegrade.cli.rules import command as rules


@each(
    ("arguments", "said"),
    [
        ("init", "No such command 'init': there is nothing to set up; 'serve' makes its data folder"),
        ("status", "'doctor' says what is wrong"),
        ("trace list", "No such command 'trace'; did you mean 'traces'?"),
        ("traces ls", "did you mean 'list'?"),
        ("rules validate", "'rules check' finds what is wrong"),
        ("results list --outcome failed", "did you mean 'fail'?"),
        ("traces list --outcome passed", "did you mean 'pass'?"),
        ("why", "expected a TRACE_ID, or --last"),
        ("why ab12 --last", "expected a TRACE_ID, or --last"),
    ],
)
def test_what_people_guess_is_answered_with_what_there_is(arguments: str, said: str) -> None:
    result = CliRunner().invoke(main, arguments.split())
    assert result.exit_code == 2
    assert said in result.stderr


def test_no_guess_is_a_command() -> None:
    assert not GUESSED.keys() & COMMANDS.keys()
    assert "validate" not in rules.commands
