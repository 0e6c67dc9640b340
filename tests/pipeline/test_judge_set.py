"""How many judges there are: changed by a restart, and by a kill at any point of the change."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.journal.position import Position
from tracegrade.pipeline import judge_set as judge_set_module
from tracegrade.pipeline.data_folder import DataFolder, Judge, judge_of, judges
from tracegrade.pipeline.judge_set import JudgeSet


class Killed(BaseException):
    """The process is gone."""


def commit(path: Path, position: int) -> None:
    found = Position(path)
    found.commit(position)
    found.close()


def positions(folder: DataFolder, some: list[Judge]) -> list[int | None]:
    return [Position(folder.position(judge.name)).load() for judge in some]


def test_a_folder_of_an_earlier_version_has_one_judge_with_its_files(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    commit(tmp_path / "positions" / "judge", 70)
    judge_set = JudgeSet(folder)
    judge_set.change(1)
    assert judge_set.size == 1
    (judge,) = judge_set.judges
    assert (judge.name, judge.results) == ("judge", "results")
    assert positions(folder, [judge]) == [70]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["positions"]


def test_names_are_read_as_they_are_written() -> None:
    for of in (1, 2, 7):
        assert [judge_of(judge.name) for judge in judges(of)] == judges(of)
    for name in ("", "judge-", "judge-2-of-2", "judge-0-of-0", "delivery", "judge-x-of-2"):
        assert judge_of(name) is None


def test_a_new_set_begins_where_the_slowest_judge_was_and_leaves_no_position_of_others(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    judge_set = JudgeSet(folder)
    judge_set.change(3)
    assert positions(folder, judges(3)) == [None] * 3, "from the first record on"
    for place, judge in enumerate(judges(3)):
        commit(folder.position(judge.name), 100 - place)
        commit(folder.turns_position(judge), 10 + place)
    commit(folder.position("otlp"), 500)
    judge_set.change(2)
    assert positions(folder, judges(2)) == [98, 98]
    assert [Position(folder.turns_position(judge)).load() for judge in judges(2)] == [10, 10]
    assert positions(folder, judges(3)) == [None] * 3
    assert Position(folder.position("otlp")).load() == 500
    assert folder.consumed() == 500
    # One that had committed nothing has to begin at the first record.
    folder.position("judge-1-of-2").unlink()
    judge_set.change(1)
    assert positions(folder, judges(1)) == [None]


def test_what_judges_of_other_sets_last_said_is_removed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    judge_set = JudgeSet(folder)
    judge_set.change(2)
    for role in ("judge", "judge-1-of-2", "delivery", "receive"):
        folder.heartbeat(role).touch()
        folder.write_snapshot(role, {"role": role})
    judge_set.change(3)
    assert folder.read_snapshot("judge-1-of-2") is None, "read as the judge's progress when there are two again"
    judge_set.change(2)
    assert {role for role, _ in folder.signs()} == {"delivery", "receive"}


def test_results_of_other_sets_are_named_and_those_in_force_are_not(tmp_path: Path) -> None:
    for name in ("results", "results-0-of-2", "results-1-of-2", "results-x", "results.old"):
        (tmp_path / name).mkdir()
    judge_set = JudgeSet(DataFolder(tmp_path))
    assert judge_set.left() == ["results-0-of-2", "results-1-of-2"]
    judge_set.change(2)
    assert judge_set.left() == ["results"]
    assert not judge_set.is_ready
    judge_set.say_ready(2)
    assert judge_set.is_ready
    judge_set.change(2)
    assert not judge_set.is_ready, "the store has to be opened again"


class Steps:
    """Everything that a change does to the disk, so many steps of which are done before the kill; None: all."""

    def __init__(self, patched: pytest.MonkeyPatch, before_kill: int | None) -> None:
        self._left = before_kill
        for owner, name in ((Path, "unlink"), (judge_set_module, "replace_file"), (Position, "commit")):
            patched.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, action: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: object, **options: object) -> None:
            if self._left == 0:
                raise Killed
            if self._left is not None:
                self._left -= 1
            action(*arguments, **options)

        return counted


@given(st.data())
def test_a_kill_at_any_point_of_a_change_leaves_nothing_unread(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = DataFolder(tmp_path_factory.mktemp("data"))
    committed = {"judge": 0}  # by each judge of the set that ran last
    was_killed = False
    for _ in range(data.draw(st.integers(1, 6), label="starts")):
        size = data.draw(st.sampled_from([1, 2, 3]), label="judges")
        with pytest.MonkeyPatch.context() as patched, suppress(Killed):
            Steps(patched, data.draw(st.none() | st.integers(0, 12), label="steps before a kill"))
            was_killed = True
            JudgeSet(folder).change(size)
            was_killed = False
        if was_killed:
            continue
        current = JudgeSet(folder).judges
        assert len(current) == size
        slowest = min(committed.values())
        for judge, begin in zip(current, positions(folder, current), strict=True):
            # It has its own position only if its set ran last; after another one, and after kills, it may be less.
            assert (begin or 0) <= committed.get(judge.name, slowest)
            assert (begin or 0) >= slowest or not slowest
        committed = {judge.name: begin or 0 for judge, begin in zip(current, positions(folder, current), strict=True)}
        for judge in current:
            committed[judge.name] += data.draw(st.integers(0, 9), label=f"{judge.name} reads on")
            commit(folder.position(judge.name), committed[judge.name])
