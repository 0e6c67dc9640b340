"""The access log's files: what is in them, how they are rotated and read, and what is counted as lost."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from tracegrade.access.log import Access, AccessFiles, AccessLog, Place
from tracegrade.access.settings import AccessLogSettings
from waiting import WITHIN_S, eventually

NOW = 1_800_000_000_000_000_000
DAY = 86_400 * 10**9


class Clock:
    def __init__(self) -> None:
        self.ns = NOW

    def __call__(self) -> int:
        return self.ns


def files(folder: Path, clock: Clock | None = None, **settings: object) -> AccessFiles:
    return AccessFiles(folder, AccessLogSettings.model_validate(settings), clock or Clock())


def entry(name: str = "auditor", **named: str) -> bytes:
    return Access(name, "shop", "read", "GET /traces/{trace_id}", named, 200, True, NOW).line()


def everything(of: AccessFiles) -> list[str]:
    found, place = of.read(Place(), 5000)
    names = []
    while found:
        names += [item["name"] for item in found]
        found, place = of.read(place, 5000)
    return names


def test_an_entry_says_who_what_and_when(tmp_path: Path) -> None:
    files(tmp_path).write([entry(trace_id="ab" * 16)])
    [path] = (tmp_path / "access").glob("access-*.jsonl")
    assert json.loads(path.read_text()) == {
        "time": "2027-01-15T08:00:00.000Z",
        "name": "auditor",
        "tenant": "shop",
        "right": "read",
        "operation": "GET /traces/{trace_id}",
        "named": {"trace_id": "ab" * 16},
        "status": 200,
        "values": True,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_oldest_files_go_when_all_are_too_large(tmp_path: Path) -> None:
    clock = Clock()
    of = files(tmp_path, clock, max_size_mib=1)
    for number in range(40):
        clock.ns += 1
        of.write([entry(str(number), session="x" * 3900) for _ in range(10)])
    sizes = [path.stat().st_size for path in (tmp_path / "access").glob("*.jsonl")]
    assert 0.7 * 2**20 < sum(sizes) <= 2**20 + 40_000
    assert max(sizes) < 2**17 + 41_000
    kept = [int(name) for name in everything(of)]
    assert kept == sorted(kept)
    assert kept[-1] == 39
    assert kept[0] > 5


def test_files_go_when_all_in_them_is_too_old(tmp_path: Path) -> None:
    clock = Clock()
    of = files(tmp_path, clock, max_age="8d")
    for day in range(12):
        of.write([entry(str(day))])
        clock.ns += DAY
    assert everything(of) == [str(day) for day in range(2, 12)]  # a file has a day, and goes when the next one is old


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    clock = Clock()
    of = files(tmp_path, clock)
    of.write([entry("1"), entry("2")])
    found, place = of.read(Place())
    assert [item["name"] for item in found] == ["1", "2"]
    assert of.read(place) == ([], place)
    assert place == of.end()
    clock.ns += 200 * DAY
    of.write([entry("3")])
    found, place = of.read(place)
    assert [item["name"] for item in found] == ["3"]
    assert of.is_kept(place)
    for path in (tmp_path / "access").glob("*.jsonl"):
        path.unlink()
    assert not of.is_kept(place)


def test_with_a_clock_that_was_set_back_what_comes_later_is_read_later(tmp_path: Path) -> None:
    clock = Clock()
    of = files(tmp_path, clock, max_size_mib=1)
    of.write([entry("before", session="x" * 3900) for _ in range(40)])  # a file is full
    place = of.end()
    clock.ns -= DAY
    for number in range(3):
        of.write([entry(f"after {number}")])
    assert [item["name"] for item in of.read(place)[0]] == ["after 0", "after 1", "after 2"]
    assert len(list((tmp_path / "access").glob("*.jsonl"))) == 2


def test_a_line_that_was_torn_is_left_out(tmp_path: Path) -> None:
    of = files(tmp_path)
    of.write([entry("1")])
    [path] = (tmp_path / "access").glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"time": "20\n')
    of.write([entry("2")])
    assert everything(of) == ["1", "2"]


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        of = files(tmp_path)
        for _ in range(20):
            of.write([entry(str(number))])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(everything(files(tmp_path))) == sorted(str(number) for number in range(4) for _ in range(20))


def test_a_page_never_waits_and_what_is_lost_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = files(tmp_path)
    let_go = threading.Event()
    write = of.write

    def held(lines: list[bytes]) -> None:
        let_go.wait(WITHIN_S)
        write(lines)

    monkeypatch.setattr(of, "write", held)
    monkeypatch.setattr("tracegrade.access.log._MOST_WAITING", 5)
    log = AccessLog(of)
    access = Access("auditor", None, "read", "GET /")
    log.add(access)
    eventually(lambda: not log._waiting, "the thread took the first")
    for _ in range(8):
        log.add(access)
    let_go.set()
    log.close()
    found, _ = of.read(Place())
    assert [item.get("lost", 0) for item in found] == [0, 0, 0, 0, 0, 0, 3]


def test_of_lines_that_do_not_fit_on_the_disk_none_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = files(tmp_path)
    of.write([entry("1")])
    whole = os.write
    monkeypatch.setattr("tracegrade.access.log.os.write", lambda to, data: whole(to, data[: len(data) // 2]))
    with pytest.raises(OSError, match="no space left"):
        of.write([entry("2")])
    monkeypatch.undo()
    of.write([entry("3")])
    assert everything(of) == ["1", "3"]


def test_what_the_disk_refuses_is_lost_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    of = files(tmp_path)
    write = of.write
    refused: list[bytes] = []

    def refuse_first(lines: list[bytes]) -> None:
        if not refused:
            refused.extend(lines)
            raise OSError(28, "No space left on device")
        write(lines)

    monkeypatch.setattr(of, "write", refuse_first)
    log = AccessLog(of)
    log.add(Access("first", None, "read", "GET /"))
    eventually(lambda: "the access log cannot be written" in caplog.text, "the refusal is said")
    log.add(Access("second", None, "read", "GET /"))
    log.close()
    found, _ = of.read(Place())
    assert [(item.get("name"), item.get("lost")) for item in found] == [("second", None), (None, 1)]
