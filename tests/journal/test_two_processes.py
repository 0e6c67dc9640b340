import itertools
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KILLS = 8
PATIENCE_S = 30


class Side:
    """A process of ours whose complete output lines are collected as they come."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.lines: list[list[int]] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._drain = threading.Thread(target=self._collect)
        self._drain.start()

    def wait_for(self, count: int) -> None:
        """Wait until `count` lines have come."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: len(self.lines) >= count or self._process.poll() is not None, PATIENCE_S
            )
        if not came or len(self.lines) < count:
            self.kill()
            raise AssertionError(f"{len(self.lines)} of {count} lines; {self.errors}")

    def kill(self) -> None:
        """Kill -9; what it had printed in full is in ``lines``."""
        self._process.kill()
        self._end()

    def finish(self) -> None:
        """Let it end by itself, and well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._drain.join(PATIENCE_S)
        try:
            assert self._process.wait(PATIENCE_S) == 0, self._end()
        finally:
            self.kill()

    def _end(self) -> str:
        self._drain.join(PATIENCE_S)
        self._process.wait(PATIENCE_S)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        self._process.stdout.close()
        if not self._process.stderr.closed:
            self.errors = self._process.stderr.read().decode()
            self._process.stderr.close()
        return self.errors

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # a killed process may leave half a line
                with self._changed:
                    self.lines.append([int(part) for part in line.split()])
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


class Sides:
    """The two roles, restarted after every kill; collects what all their lives printed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.answered: list[list[int]] = []
        self.read_lives: list[list[list[int]]] = []
        self._next_number = 0
        self.writer = self._start_writer()
        self.writer.wait_for(1)
        self.reader = self._start_reader()

    def kill_writer(self, after: int) -> None:
        self.writer.wait_for(after)
        self.writer.kill()
        self._keep_writer()
        self.writer = self._start_writer()

    def kill_reader(self, after: int) -> None:
        self.reader.wait_for(after)
        self.reader.kill()
        self.read_lives.append(self.reader.lines)
        self.reader = self._start_reader()

    def finish(self) -> None:
        self.writer.wait_for(1)
        self.writer.finish()
        self._keep_writer()
        self.reader.finish()
        self.read_lives.append(self.reader.lines)

    def stop(self) -> None:
        self.writer.kill()
        self.reader.kill()

    def _keep_writer(self) -> None:
        self.answered += self.writer.lines
        # Numbers in flight at a kill may or may not be in the journal; none of them is used again.
        if self.writer.lines:
            self._next_number = self.writer.lines[-1][0] + 1000

    def _start_writer(self) -> Side:
        return Side("two_processes_writer.py", self._folder / "journal", self._position, self._next_number)

    def _start_reader(self) -> Side:
        return Side("two_processes_reader.py", self._folder / "journal", self._position)

    @property
    def _position(self) -> Path:
        return self._folder / "positions" / "reader"


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    sides = Sides(tmp_path)
    yield sides
    sides.stop()


def test_killing_either_side_at_any_moment_loses_nothing_and_leaves_no_gap(sides: Sides) -> None:
    moments = random.Random(2)
    for _ in range(KILLS):
        kill = moments.choice((sides.kill_writer, sides.kill_reader))
        kill(after=moments.randrange(1, 300))
    sides.finish()

    # Each life of the reader begins where nothing before it is unread, and leaves no gap in itself.
    number_at: dict[tuple[int, int], int] = {}
    reached = 0
    for life in sides.read_lives:
        assert not life or life[0][0] <= reached, "records were passed over"
        for (_, end, _), (position, _, _) in itertools.pairwise(life):
            assert position == end
        for position, end, number in life:
            assert number_at.setdefault((position, end), number) == number, "read twice, and differently"
        reached = max(reached, life[-1][1] if life else 0)

    places = sorted(number_at)
    assert places[0][0] == 0
    assert all(first[1] == second[0] for first, second in itertools.pairwise(places))
    numbers = [number_at[place] for place in places]
    assert numbers == sorted(set(numbers)), "in order, and none twice"
    number_ending_at = {end: number_at[position, end] for position, end in places}
    assert len(sides.answered) > KILLS
    for number, end in sides.answered:
        assert number_ending_at.get(end) == number, "answered and not read"
