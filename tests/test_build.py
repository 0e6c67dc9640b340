"""The builders of tests: a table runs every row and reports all that fail."""

import inspect
import os
from pathlib import Path

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
    def product(fixture: str, letter: str, number: int) -> None:
        ran.append((fixture, letter, number))

    assert list(inspect.signature(product).parameters) == ["fixture"]
    product(fixture="here")
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


def test_rows_that_are_marked_long_are_a_test_of_their_own() -> None:
    ran = []

    @each("letter", ["a", pytest.param("b", marks=pytest.mark.long)])
    @each("number", [1, pytest.param(2, marks=pytest.mark.long), 3])
    def rows(letter: str, number: int) -> None:
        ran.append((letter, number))

    assert list(inspect.signature(rows).parameters) == ["rows_of_number", "rows_of_letter"]
    usual, long = rows.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert (usual.marks, [mark.name for mark in long.marks]) == ([], ["long"])
    rows(rows_of_letter="usual", rows_of_number="usual")
    rows(rows_of_letter="long", rows_of_number="usual")
    assert ran == [("a", 1), ("a", 3), ("b", 1), ("b", 3)]
    with pytest.raises(AssertionError, match="row 1: marks other than 'long'"):
        each("number", [pytest.param(1, marks=pytest.mark.skip)])


def test_rows_of_a_function_are_made_when_the_test_runs() -> None:
    ran, made = [], []

    def numbers() -> list[int]:
        made.append("once")
        return [1, 2]

    @each("letter", "ab")
    @each("number", numbers)
    def rows(letter: str, number: int) -> None:
        ran.append((letter, number))

    assert made == []
    rows()
    assert (len(ran), made) == (4, ["once"])


def test_each_row_has_a_folder_and_a_monkeypatch_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @each("number", [1, 2])
    def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        seen.append((tmp_path, list(tmp_path.iterdir()), os.environ.get("TRACEGRADE_TEST_ROW")))
        (tmp_path / "file").touch()
        monkeypatch.setenv("TRACEGRADE_TEST_ROW", str(number))

    rows(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert [(found, row) for _, found, row in seen] == [([], None), ([], None)]
    assert len({path for path, *_ in seen}) == 2
    assert "TRACEGRADE_TEST_ROW" not in os.environ
