"""What damage and crashes left in the data folder goes when it is old."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Beat
from tracegrade.serve.delivering import leftovers
from tracegrade.store.open import open_store
from tracegrade.store.settings import StoreSettings
from waiting import eventually_in_loop

NOW = datetime.now(UTC)
AGES = (timedelta(hours=2), timedelta())


def damaged_stores(data: Path) -> list[Path]:
    paths = [data / f"tracegrade.db.replaced-{NOW - age:%Y%m%dT%H%M%SZ}" for age in AGES]
    for path in paths:
        path.write_bytes(b"damaged")
    return paths


def damaged_bytes(data: Path) -> list[Path]:
    folder = data / "results" / "set_aside"
    folder.mkdir(parents=True)
    paths = [folder / f"{number:020d}-{number:020d}.bytes" for number in range(len(AGES))]
    for path, age in zip(paths, AGES, strict=True):
        path.write_bytes(b"damaged")
        os.utime(path, ((NOW - age).timestamp(),) * 2)
    return paths


def requests_set_aside(data: Path) -> list[Path]:
    folder = DataFolder(data)
    for age in AGES:
        received_ns = int((NOW - age).timestamp()) * 10**9
        journal = LocalJournal.open(folder.journal, now_ns=lambda now_ns=received_ns: now_ns)
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, b"spans")).result()
        journal.close()
    reader = JournalReader(folder.journal)
    records = reader.read(0)
    reader.close()
    for record in [*records, *records]:
        folder.set_aside.note_death(Beat(1, 0, record.position, None, None), "a crash")
    found = folder.set_aside.load().waiting
    return [path for one in found if (path := folder.set_aside.request_path(one)) is not None]


@pytest.mark.parametrize("made_by", [damaged_stores, damaged_bytes, requests_set_aside])
def test_what_is_old_goes_and_what_is_young_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: Callable[[Path], list[Path]]
) -> None:
    monkeypatch.setattr(leftovers, "LOOK_EVERY_S", 0.01)
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    old, young = made_by(tmp_path)
    assert old.exists()

    async def run() -> None:
        stop = asyncio.Event()
        settings = StoreSettings.model_validate({"values_retention": "1h"})
        keeping = asyncio.create_task(leftovers.delete_leftovers(engine, DataFolder(tmp_path), settings, stop))
        await eventually_in_loop(lambda: not old.exists(), "the old one to go")
        stop.set()
        await keeping

    asyncio.run(run())
    assert young.exists()
    engine.dispose()
