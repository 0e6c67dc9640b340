"""How many judges share the traces of a data folder, and how that number is changed by a restart.

The file ``judges`` names the set in force; without it, it is one judge. Each set has position files and results
journals of its own names, so that no process of an earlier set, such as the judge of a receiver that was killed, can
touch what the next set goes by. `JudgeSet.change` goes from one set to another, and a kill at any point of it leaves
either::

    1. every judge of the new set gets the smallest position of the old set: whatever was read by some and not by
       others is read again, and judging again changes nothing
    2. the file names the new set
    3. position files of other sets are removed, and what their judges last said of themselves

Results journals of other sets stay until every sink has taken all that is in them. Before the store has done so, no
judge reads a span: late spans look for their traces in the store. ``judges.ready`` says that it has,
since the keeper of the judges started.
"""

from collections.abc import Iterable
from pathlib import Path

from tracegrade.journal.files import replace_file
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import JUDGE, DataFolder, Judge, judge_of, judges


class JudgeSet:
    """The judges of one data folder. `change` is for the process that keeps them, before it starts any."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._file = folder.path / "judges"
        self._ready = folder.path / "judges.ready"

    @property
    def size(self) -> int:
        """How many judges there are."""
        return _number_in(self._file) or 1

    @property
    def judges(self) -> list[Judge]:
        """All of them."""
        return judges(self.size)

    @property
    def is_ready(self) -> bool:
        """Whether the store holds all results of the sets before this one."""
        return _number_in(self._ready) == self.size

    def say_ready(self, size: int) -> None:
        """The store holds all results of the sets before the one of this size."""
        replace_file(self._ready, str(size).encode())

    def change(self, size: int) -> None:
        """Make it so many judges; removes what an earlier change has left.

        Raises:
            OSError: the disk refused; the next call goes on.
        """
        before, after = self.judges, judges(size)
        self._ready.unlink(missing_ok=True)  # delivery says it again when it has started
        if len(before) != len(after):
            _begin(map(self._position, after), _smallest(map(self._position, before)))
            _begin(map(self._folder.turns_position, after), _smallest(map(self._folder.turns_position, before)))
            replace_file(self._file, str(size).encode())
        names = {judge.name for judge in after}
        for path in (self._folder.path / "positions").glob(f"*{JUDGE}*"):
            prefix, _, name = path.name.rpartition(".")
            if prefix in ("", "turns") and judge_of(name) is not None and name not in names:
                path.unlink(missing_ok=True)
        for role, path in self._folder.signs():
            if judge_of(role) is not None and role not in names:
                path.unlink(missing_ok=True)

    def left(self) -> list[str]:
        """The names of results journals of other sets, which have something that a sink has not taken."""
        names = {judge.results for judge in self.judges}
        return [name for name in self._folder.results_journals() if name not in names]

    def _position(self, judge: Judge) -> Path:
        return self._folder.position(judge.name)


def _smallest(paths: Iterable[Path]) -> int | None:
    """The smallest position in these files; None, which stands for the first one ever, if one is not there."""
    found = [Position(path).load() for path in paths]
    known = [position for position in found if position is not None]
    return min(known) if len(known) == len(found) else None


def _begin(paths: Iterable[Path], at: int | None) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
        if at is not None:
            position = Position(path)
            position.commit(at)
            position.close()


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
