"""What the two roles leave for each other in the data folder."""

from concurrent.futures import ThreadPoolExecutor
from errno import EIO, ENOSPC
from pathlib import Path
from threading import Barrier

import pytest

from tracegrade.pipeline.data_folder import DataFolder


@pytest.mark.parametrize("content", ["", "{", '[["00'])
def test_a_list_of_pairs_set_aside_that_a_power_cut_spoilt_is_begun_anew(content: str, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.set_aside.path.write_text(content)
    assert folder.set_aside.load().pairs == {}
    folder.set_aside.add_pair("ab" * 16, "slow-rule", "hung")
    assert folder.set_aside.load().pairs == {("ab" * 16, "slow-rule"): "hung"}


def test_an_instance_keeps_its_name(tmp_path: Path) -> None:
    assert DataFolder(tmp_path).instance_id() == DataFolder(tmp_path).instance_id()


def test_roles_that_begin_at_once_in_a_new_folder_make_one_id(tmp_path: Path) -> None:
    together = Barrier(8)

    def began(folder: Path) -> str:
        together.wait()
        return DataFolder(folder).instance_id()

    with ThreadPoolExecutor(8) as roles:
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            assert len(set(roles.map(began, [folder] * 8))) == 1


@pytest.mark.parametrize("left", [b"", b"\n", b"\xff\xfe\x00noise", bytes(32), b"a\r\nb: c", b"x" * 4096])
def test_an_instance_whose_name_a_power_cut_spoilt_gets_a_new_one_and_keeps_it(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "instance_id").write_bytes(left)
    name = DataFolder(tmp_path).instance_id()
    assert len(name) == 32
    assert DataFolder(tmp_path).instance_id() == name


def test_a_full_disk_leaves_the_last_snapshot_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DataFolder(tmp_path)
    folder.write_snapshot("judge", {"time_ns": 1})

    def refuse(path: Path, data: bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    folder.write_snapshot("judge", {"time_ns": 2})
    assert folder.read_snapshot("judge") == {"time_ns": 1}


def test_a_snapshot_that_a_broken_disk_refuses_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: bytes) -> int:
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        DataFolder(tmp_path).write_snapshot("judge", {"time_ns": 2})
