"""A store of the first version under a ``serve`` of this one."""

from pathlib import Path

import pytest

from build.served import Server
from store.test_migrations import store_of_version
from waiting import eventually

pytestmark = pytest.mark.long


def test_serve_brings_a_store_of_the_first_version_up_to_date_and_commands_read_it(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.data.mkdir()
    store_of_version("0001", f"sqlite:///{server.data / 'tracegrade.db'}", tmp_path)
    config = ("-c", str(server.config))
    refused = server.cli("results", "list", *config)
    assert refused.exit_code == 2
    assert "tables of version 0001" in refused.stderr
    assert "start 'tracegrade serve'" in refused.stderr
    server.start()
    try:
        eventually(lambda: server.cli("results", "stats", *config).exit_code == 0, "the judge's first step")
        assert "checkout-order" in server.cli("results", "stats", *config).stdout
        alerts = server.cli("alerts", "list", *config)
        assert alerts.exit_code == 0, alerts.stderr
        assert "checkout-order at shop" in alerts.stdout
    finally:
        server.stop()
