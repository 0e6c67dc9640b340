"""Tables of inputs: one test that runs every row and reports all rows that fail."""

import functools
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

_Test = Callable[..., None]


def each(
    names: str | tuple[str, ...] | list[str],
    rows: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Callable[[Any], Any] | Iterable[str] | None = None,
) -> Callable[[_Test], _Test]:
    """Run a test once per row, as `pytest.mark.parametrize` does, but as one test.

    A test of pytest costs more than most rows take. Each row has a `tmp_path` and a `monkeypatch` of its own, and
    shares the test's other fixtures: use `parametrize` where a row changes one of those, and where rows may skip.
    Decorators stack: every combination is run.

    Args:
        names: the arguments that a row gives, in order: a sequence, or names separated by commas.
        rows: values or tuples of values; `pytest.param` names a row, and marks it ``long``: such rows are a second
            test. A table without rows fails. Rows that take long to make are given by a function, which is called
            when the test runs; none of those is marked.
        ids: the name of each row in a failure, or what makes it from a value. Otherwise its values are shown.

    Raises:
        BaseExceptionGroup: by the decorated test: the failures, each with a note that names its row.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if callable(rows):
        tables = {"usual": functools.cache(lambda: list(_read(rows(), arguments, ids)))}
    else:
        table = list(_read(rows, arguments, ids))
        usual, long = ([row for row in table if row.is_long is is_long] for is_long in (False, True))
        tables = {"usual": lambda: usual} if usual or not long else {}
        tables |= {"long": lambda: long} if long else {}
    part = f"rows_of_{'_'.join(arguments)}"

    def decorate(test: _Test) -> _Test:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            table = tables[fixtures.pop(part, "usual")]()
            assert table, "a table without rows tests nothing"
            failures: list[BaseException] = []
            for number, row in enumerate(table, 1):
                try:
                    with _own(fixtures, number) as own:
                        test(*args, **own, **row.values)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    error.add_note(f"Row: {row.name or _shown(row.values, ids)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows failed", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        assert len(left) == len(signature.parameters) - len(arguments), f"the test does not take all of {arguments}"
        if "long" not in tables:
            run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
            return run
        left.append(inspect.Parameter(part, inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return pytest.mark.parametrize(part, rest_long(tables, ["usual"]))(run)

    return decorate


def rest_long(values: Iterable[Any], usual: Container[Any]) -> list[Any]:
    """The rows of `pytest.mark.parametrize`, of which those outside `usual` are marked ``long``."""
    return [pytest.param(value, marks=[] if value in usual else [pytest.mark.long]) for value in values]


@contextmanager
def _own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The test's fixtures, with a folder and a monkeypatch for row `number` alone."""
    own = dict(fixtures)
    with pytest.MonkeyPatch.context() as patched:
        if "monkeypatch" in own:
            own["monkeypatch"] = patched
        if "tmp_path" in own:
            own["tmp_path"] = own["tmp_path"] / f"row-{number}"
            own["tmp_path"].mkdir()
        yield own


@dataclass(frozen=True, slots=True)
class _Row:
    name: str | None
    values: dict[str, Any]
    is_long: bool


def _read(rows: Iterable[Any], arguments: list[str], ids: Any) -> Iterator[_Row]:
    given = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        name = given[number] if given is not None else None
        is_long = False
        if isinstance(row, type(pytest.param())):
            values, name = row.values, name or row.id
            is_long = bool(row.marks)
            assert not is_long or [mark.name for mark in row.marks] == ["long"], (
                f"row {number + 1}: marks other than 'long' need 'pytest.mark.parametrize'"
            )
        else:
            values = (row,) if len(arguments) == 1 else tuple(row)
        yield _Row(name, dict(zip(arguments, values, strict=True)), is_long)


def _shown(values: dict[str, Any], ids: Any) -> str:
    named = {key: ids(value) if callable(ids) else None for key, value in values.items()}
    return ", ".join(f"{key}={named[key] or repr(value)[:200]}" for key, value in values.items())
