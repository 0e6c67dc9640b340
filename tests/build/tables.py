"""Tables of inputs: one test that runs every row and reports all rows that fail."""

import functools
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_Test = Callable[..., None]


def each(
    names: str | tuple[str, ...] | list[str],
    rows: Iterable[Any],
    ids: Callable[[Any], Any] | Iterable[str] | None = None,
) -> Callable[[_Test], _Test]:
    """Run a test once per row, as `pytest.mark.parametrize` does, but as one test.

    A test of pytest costs more than most rows take. Each row has a `tmp_path` and a `monkeypatch` of its own, and
    shares the test's other fixtures: use `parametrize` where a row changes one of those, and where rows may skip.
    Decorators stack: every combination is run.

    Args:
        names: the arguments that a row gives, in order: a sequence, or names separated by commas.
        rows: values or tuples of values; `pytest.param` names a row. A table without rows fails.
        ids: the name of each row in a failure, or what makes it from a value. Otherwise its values are shown.

    Raises:
        BaseExceptionGroup: by the decorated test: the failures, each with a note that names its row.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_read(rows, arguments, ids))

    def decorate(test: _Test) -> _Test:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            assert table, "a table without rows tests nothing"
            failures: list[BaseException] = []
            for number, (name, values) in enumerate(table, 1):
                try:
                    with _own(fixtures, number) as own:
                        test(*args, **own, **values)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    error.add_note(f"Row: {name}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows failed", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        assert len(left) == len(signature.parameters) - len(arguments), f"the test does not take all of {arguments}"
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

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


def _read(rows: Iterable[Any], arguments: list[str], ids: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    given = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        name = given[number] if given is not None else None
        if isinstance(row, type(pytest.param())):
            assert not row.marks, f"row {number + 1}: marks need 'pytest.mark.parametrize'"
            values, name = row.values, name or row.id
        else:
            values = (row,) if len(arguments) == 1 else tuple(row)
        by_name = dict(zip(arguments, values, strict=True))
        if name is None:
            shown = {key: ids(value) if callable(ids) else None for key, value in by_name.items()}
            name = ", ".join(f"{key}={shown[key] or repr(value)[:200]}" for key, value in by_name.items())
        yield str(name), by_name
