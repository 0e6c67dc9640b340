from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from build import store_with
from build.releases import traces
from tracegrade.compare.compare import Wanted, compare
from tracegrade.compare.progress import Advance, ScanProgress
from tracegrade.compare.sides import side_of
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter


def test_each_bar_has_a_total_and_reaches_it(tmp_path: Path) -> None:
    store_with(tmp_path, *traces("1.0", "p" * 30, first=1), *traces("2.0", "p" * 50, first=31))
    shown: list[tuple[str, int | None, list[int]]] = []

    @contextmanager
    def noted(label: str, total: int | None) -> Iterator[Advance]:
        steps: list[int] = []
        shown.append((label, total, steps))
        yield steps.append

    sides = [side_of(text, ResultFilter(), int) for text in ("release:1.0", "release:2.0")]
    with reading_store(f"sqlite:///{tmp_path / 'tracegrade.db'}") as connection:
        compare(connection, sides[0], sides[1], Wanted(), noted)
    assert [(label, total, sum(steps)) for label, total, steps in shown] == [
        ("release:1.0: traces read", 80, 80),
        ("release:2.0: traces read", 80, 80),
        ("calls read: traces", 80, 80),
    ]


def test_what_is_further_along_of_numbers_and_traces_is_told() -> None:
    looked = ScanProgress((1, 1000), 100)
    assert looked.total == 100
    steps = [looked.steps_to(901, 5), looked.steps_to(801, 60), looked.steps_to(101, 60), looked.steps_to(1, 130)]
    assert steps == [10, 50, 30, 10]


def test_a_side_without_traces_has_a_total_of_none() -> None:
    assert ScanProgress(None, 100).total == 0
