from dataclasses import replace
from pathlib import Path

import pytest

from cli.stored import run, run_json
from tracegrade.store.alerts import StoredAlert, Told, save_alert
from tracegrade.store.open import open_store

FIRING = StoredAlert(
    fingerprint="ab" * 16,
    starts_ns=1_767_225_600_000_000_000,
    ends_ns=None,
    state="firing",
    tenant="default",
    rule_id="checkout-order",
    service="shop",
    level="high",
    title="",
    of="pass_rate",
    bound=0.95,
    over_s=3600.0,
    value=0.9,
    samples=40,
    updated_ns=1_767_225_600_000_000_000,
    notified={"pager": Told("firing", 1), "mail": Told(tries=3, error="answered 503")},
)
EARLIER = replace(
    FIRING, starts_ns=FIRING.starts_ns - 10**12, ends_ns=FIRING.starts_ns - 10**11, state="resolved", notified={}
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    with engine.begin() as connection:
        for alert in (EARLIER, FIRING):
            save_alert(connection, alert)
    engine.dispose()
    return tmp_path


def test_list_shows_the_latest_first(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list") == [FIRING.to_json(), EARLIER.to_json()]


def test_firing_shows_only_what_fires_now(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list", "--firing") == [FIRING.to_json()]


def test_since_leaves_out_what_was_resolved_before(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list", "--since", "2026-01-01") == [FIRING.to_json()]


def test_the_table_reads_without_colour_and_says_who_was_told(data_dir: Path) -> None:
    output = run(data_dir, "alerts", "list").stdout
    assert "! firing" in output
    assert "✓ resolved" in output
    assert "90.0%" in output
    assert "pager" in output
    assert "answered 503" in output


def test_no_alerts_is_said(data_dir: Path) -> None:
    assert run(data_dir, "alerts", "list", "--since", "2026-01-01", "--limit", "1").exit_code == 0
    engine = open_store(f"sqlite:///{data_dir / 'tracegrade.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alerts")
    engine.dispose()
    assert run(data_dir, "alerts", "list").stdout == "No alerts.\n"
