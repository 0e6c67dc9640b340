"""The builders of tests: a table runs every row and reports all that fail."""

import inspect

import pytest

from build import each


def test_a_table_runs_every_row_and_names_those_that_fail() -> None:
    ran: list[tuple[int, str]] = []

    @each("number, text", [(1, "a"), pytest.param(2, "b", id="the second"), (3, "c")])
    def rows(number: int, text: str) -> None:
        ran.append((number, text))
        assert number == 1, "not one"

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows failed") as failed:
        rows()
    assert ran == [(1, "a"), (2, "b"), (3, "c")]
    assert [error.__notes__ for error in failed.value.exceptions] == [["Row: the second"], ["Row: number=3, text='c'"]]


def test_tables_stack_and_leave_fixtures_to_pytest() -> None:
    ran = []

    @each("letter", "ab")
    @each("number", [1, 2])
    def product(tmp_path: str, letter: str, number: int) -> None:
        ran.append((tmp_path, letter, number))

    assert list(inspect.signature(product).parameters) == ["tmp_path"]
    product("here")
    assert ran == [("here", "a", 1), ("here", "a", 2), ("here", "b", 1), ("here", "b", 2)]


def test_a_row_that_skips_is_a_failure_and_so_is_an_empty_table() -> None:
    @each("number", [1])
    def skipping(number: int) -> None:
        pytest.skip("would hide the rows behind it")

    @each("number", [])
    def empty(number: int) -> None: ...

    with pytest.raises(BaseExceptionGroup, match="1 of 1 rows failed"):
        skipping()
    with pytest.raises(AssertionError, match="tests nothing"):
        empty()
