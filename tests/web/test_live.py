"""New results are told to open pages, however many come, at most once a second."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from sqlalchemy import Connection

from build import store_with
from build.judged_traces import judged
from build.site import Site, serving
from build.stored_alerts import ALERT, INCIDENT, store_incident
from tracegrade.store.incidents import accept
from tracegrade.store.open import open_store
from tracegrade.store.read import changing_mark
from tracegrade.store.write import StoreWriter
from waiting import WITHIN_S, eventually


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Site]:
    store_with(tmp_path)
    with serving(tmp_path) as site:
        yield site


def _numbers(site: Site, count: int) -> Iterator[int]:
    """The numbers of the next events."""
    with urlopen(f"{site.url}/live", timeout=WITHIN_S) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        for _ in range(count):
            line = response.readline().decode()
            while not line.startswith("data: "):
                line = response.readline().decode()
            yield int(line.removeprefix("data: ").partition(" ")[0])


def test_new_results_are_told_once_however_many_they_are(empty: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.web.live.LOOK_EVERY_S", 0.2)
    engine = open_store(empty.store_url)
    writer = StoreWriter(engine)
    numbers = _numbers(empty, 3)
    assert next(numbers) == 0
    written = 0
    seen = [0]
    for _ in range(2):
        for _ in range(50):
            written += 1
            writer.write([judged(written)])
        seen.append(next(numbers))
    engine.dispose()
    assert 0 < seen[1] <= 50
    assert seen[1] < seen[2] <= 100


def test_an_incident_that_changes_is_told_though_no_result_comes(empty: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.web.live.LOOK_EVERY_S", 0.05)
    engine = open_store(empty.store_url)
    numbers = _numbers(empty, 3)
    assert next(numbers) == 0
    with engine.begin() as connection:
        store_incident(connection, ALERT)
    assert next(numbers) == 0
    with engine.begin() as connection:
        accept(connection, INCIDENT.id, ALERT.starts_ns + 1)
    assert next(numbers) == 0
    engine.dispose()


def test_an_open_page_asks_the_store_once_a_second_and_a_closed_one_does_not(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.web.live.LOOK_EVERY_S", 0.05)
    looked: list[float] = []

    def counted(connection: Connection) -> str:
        looked.append(time.monotonic())
        return changing_mark(connection)

    monkeypatch.setattr("tracegrade.web.live.changing_mark", counted)
    with urlopen(f"{empty.url}/live", timeout=WITHIN_S) as response:
        while not response.readline().startswith(b"data: "):
            pass
        assert looked
    eventually(lambda: time.monotonic() - looked[-1] > 0.5)  # nobody waits any more, so nobody looks


def test_an_open_page_does_not_hold_up_the_end(empty: Site) -> None:
    with urlopen(f"{empty.url}/live", timeout=WITHIN_S) as response:
        while not response.readline().startswith(b"data: "):
            pass
        empty.stopping = True
        assert b"data" not in response.read()  # it ends
