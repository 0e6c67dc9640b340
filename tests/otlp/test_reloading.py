import logging
from pathlib import Path

import pytest

from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.reloading import Reloading


class Number:
    """A file that holds a number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_s = 0.0
        self.reads = 0
        path.write_text("1")
        self.reloading = Reloading("the number", [str(path)], self.read, lambda: self.now_s)

    def read(self) -> int:
        self.reads += 1
        try:
            return int(self.path.read_text())
        except ValueError:
            raise TraceGradeError("no number") from None

    def looked(self, after_s: float = 1.0) -> tuple[bool, int]:
        self.now_s += after_s
        return self.reloading.poll(), self.reloading.value


@pytest.fixture
def number(tmp_path: Path) -> Number:
    return Number(tmp_path / "number")


def test_what_changed_is_read_again_and_what_did_not_is_not(number: Number) -> None:
    assert number.looked() == (False, 1)
    number.path.write_text("20")
    assert number.looked() == (True, 20)
    assert number.looked() == (False, 20)
    assert number.reads == 2


def test_files_are_looked_at_once_a_second(number: Number) -> None:
    number.path.write_text("20")
    assert number.looked(0.9) == (False, 1)
    assert number.looked(0.1) == (True, 20)


def test_what_cannot_be_used_changes_nothing_and_is_said_once(number: Number, caplog: pytest.LogCaptureFixture) -> None:
    number.path.write_text("many")
    assert [number.looked() for _ in range(3)] == [(False, 1)] * 3
    number.path.unlink()
    assert number.looked() == (False, 1)
    number.path.write_text("2")
    assert number.looked() == (True, 2)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert "no number; the old one stays in force" in caplog.text


def test_the_first_reading_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Reloading("nothing", [str(tmp_path / "none")], (tmp_path / "none").read_bytes)
