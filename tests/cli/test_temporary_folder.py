"""A folder that is gone in whatever way its process ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracegrade.cli.process import temporary_folder
from waiting import WITHIN_S

PREFIX = "tracegrade-check-"

WAITS = f"""
import signal
from tracegrade.cli.process import temporary_folder
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as without nohup, under which the tests may run
with temporary_folder({PREFIX!r}) as folder:
    (folder / "request").write_bytes(b"a value")
    print(folder, flush=True)
    while True:
        signal.pause()
"""


@pytest.fixture(autouse=True)
def _temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@contextmanager
def waiting() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a folder with a value in it."""
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().rstrip("\n"))
        finally:
            process.kill()


def test_it_is_for_its_user_alone_and_gone_afterwards(tmp_path: Path) -> None:
    with temporary_folder(PREFIX) as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "request").write_bytes(b"a value")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with waiting() as (process, folder):
        assert folder.exists()
        process.send_signal(number)
        assert process.wait(WITHIN_S) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_others_work_with_stays(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}file").write_text("no folder")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path.parent)
    open_to_others = tmp_path / f"{PREFIX}of-somebody"
    open_to_others.mkdir()
    open_to_others.chmod(0o755)  # whatever the umask is
    with waiting() as (_, in_use):
        with waiting() as (killed, left):
            killed.kill()
            killed.wait(WITHIN_S)
            assert (left / "request").read_bytes() == b"a value"
        with temporary_folder(PREFIX) as own:
            assert not left.exists()
            assert (in_use / "request").exists()
            others = {path.name for path in tmp_path.iterdir()} - {in_use.name, own.name}
            assert others == {f"{PREFIX}file", f"{PREFIX}link", open_to_others.name}


def test_a_folder_that_another_process_took_for_one_that_was_left_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iter([tmp_path / "removed", tmp_path / "kept"])

    def make(prefix: str) -> str:
        folder = next(made)
        folder.mkdir(mode=0o700)
        return str(folder)

    def lock(descriptor: int, how: int) -> None:
        if (tmp_path / "removed").exists():
            (tmp_path / "removed").rmdir()

    monkeypatch.setattr("tempfile.mkdtemp", make)
    monkeypatch.setattr("fcntl.flock", lock)
    with temporary_folder(PREFIX) as folder:
        assert folder == tmp_path / "kept"


def test_who_is_told_to_ignore_hanging_up_does() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with temporary_folder(PREFIX):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
