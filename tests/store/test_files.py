"""A damaged store that was put aside: who takes its place, and when it goes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from build import each
from tracegrade.store.files import (
    delete_put_aside,
    files_of,
    put_aside_of,
    remove_unfinished,
    take_its_place,
    unfinished,
)
from tracegrade.store.settings import StoreSettings

NOW = datetime(2026, 11, 23, 12, 30, 15, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "tracegrade.db"
    path.write_bytes(b"damaged")
    path.with_name("tracegrade.db-wal").write_bytes(b"log")
    return path


def put_aside(store: Path, when: datetime = NOW) -> Path:
    unfinished(store).write_bytes(b"whole")
    return take_its_place(store, when)


@pytest.mark.parametrize("has_links", [True, False])
def test_the_new_store_takes_the_place_of_the_damaged_one(
    store: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr("os.link", refuse)
    aside = put_aside(store)
    assert aside.name == "tracegrade.db.replaced-20261123T123015Z"
    assert (store.read_bytes(), aside.read_bytes()) == (b"whole", b"damaged")
    assert sorted(path.name for path in store.parent.iterdir()) == [store.name, aside.name, f"{aside.name}-wal"]
    (found,) = put_aside_of(store)
    assert (found.path, found.since_ns, found.size_bytes) == (aside, NOW_NS, len(b"damaged") + len(b"log"))


def refuse(*_: object) -> None:
    raise PermissionError("no links here")


def test_only_those_put_aside_before_a_time_go_with_their_logs(store: Path) -> None:
    put_aside(store)
    later = put_aside(store, NOW + timedelta(hours=1))
    assert delete_put_aside(store, NOW_NS) == 0
    assert delete_put_aside(store, NOW_NS + 1) == 1
    assert {path.name for path in store.parent.iterdir()} == {store.name, later.name}
    assert delete_put_aside(store) == 1
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_files_that_people_named_stay(store: Path) -> None:
    own = store.with_name("tracegrade.db.replaced-keep-this")
    own.write_bytes(b"a copy")
    assert delete_put_aside(store) == 0
    assert own.exists()


def test_what_a_kill_left_goes_and_is_known_as_the_stores(store: Path) -> None:
    left = unfinished(store)
    left.write_bytes(b"half")
    left.with_name(f"{left.name}-wal").write_bytes(b"log")
    assert {path.name for path in store.parent.iterdir()} <= {path.name for path in files_of(store)}
    remove_unfinished(store)
    assert sorted(path.name for path in store.parent.iterdir()) == ["tracegrade.db", "tracegrade.db-wal"]


@each(
    ("set_to", "hours"),
    [
        ({}, 7 * 24),
        ({"damaged_retention": "2h"}, 2),
        ({"values_retention": "12h"}, 12),
        ({"retention": "1h"}, 1),
        ({"damaged_retention": "2h", "values_retention": "12h"}, 2),
    ],
)
def test_it_stays_no_longer_than_what_comes_now(set_to: dict[str, str], hours: int) -> None:
    assert StoreSettings.model_validate(set_to).damaged_kept_s == hours * 3600
