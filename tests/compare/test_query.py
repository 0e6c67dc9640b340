"""What is declared of both sides is what the command line, the API and the store take."""

import click
import pytest

from queries import test_parameters
from tracegrade.compare.commands import compare, gate, rule_backtest
from tracegrade.compare.query import SidesQuery
from tracegrade.queries.parameters import JudgedTracesQuery, StoreQuery


def test_sides_are_selected_by_what_is_asked_in_sentences() -> None:
    test_parameters.test_each_parameter_has_a_meaning_of_one_sentence(SidesQuery)
    test_parameters.test_what_is_asked_is_what_the_store_selects_by(SidesQuery)
    test_parameters.test_operations_have_each("/compare", SidesQuery)


@pytest.mark.parametrize(
    ("command", "query", "without"),
    [
        (compare.command, SidesQuery, ()),
        (gate.command, SidesQuery, ("rule",)),
        (rule_backtest.backtest, JudgedTracesQuery, ()),
    ],
)
def test_commands_have_an_option_for_each(
    command: click.Command, query: type[StoreQuery], without: tuple[str, ...]
) -> None:
    test_parameters.test_commands_have_an_option_for_each(command, query, without)
