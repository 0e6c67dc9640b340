"""``tracegrade alerts test``: a notification to see that a channel works."""

import json
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from build.listening import Server, server
from tracegrade.cli import main

__all__ = ["server"]


def run(folder: Path, channels: dict[str, object], *arguments: str) -> Result:
    config = folder / "config.yaml"
    config.write_text(json.dumps({"alerts": {"channels": channels}}))
    return CliRunner().invoke(main, ["alerts", "test", "-c", str(config), *arguments])


def test_every_channel_gets_a_test_and_its_end_and_nothing_is_stored(tmp_path: Path, server: Server) -> None:
    result = run(tmp_path, {"ops": {"webhook": {"url": server.url}}})
    assert (result.exit_code, result.stdout) == (0, "ops: accepted\n")
    posted = [body["alerts"][0] for _, body in server.requests]
    assert [alert["status"] for alert in posted] == ["firing", "resolved"]
    assert len({alert["fingerprint"] for alert in posted}) == 1
    assert posted[0]["labels"]["rule"] == "test-notification"
    assert "This is a test. Nothing is wrong." in posted[0]["annotations"]["description"]
    assert list(tmp_path.iterdir()) == [tmp_path / "config.yaml"]


def test_a_channel_that_refuses_is_named_with_its_answer(tmp_path: Path, server: Server) -> None:
    server.status = 500
    result = run(tmp_path, {"ops": {"webhook": {"url": server.url}}, "chat": {"slack": {"url": server.url}}})
    assert result.exit_code == 1
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["ops", "chat"]
    assert result.stdout.count("not accepted") == 2
    assert "500" in result.stdout


def test_one_channel_can_be_chosen_and_must_be_there(tmp_path: Path, server: Server) -> None:
    channels = {name: {"webhook": {"url": server.url}} for name in ("ops", "own")}
    assert run(tmp_path, channels, "--channel", "own").stdout == "own: accepted\n"
    unknown = run(tmp_path, channels, "--channel", "pager")
    assert unknown.exit_code == 2
    assert "no channel 'pager'; expected one of ops, own" in unknown.stderr
    none = run(tmp_path, {})
    assert none.exit_code == 2
    assert "'alerts.channels' says where notifications are sent" in none.stderr


def test_alertmanager_gets_its_end_only_after_it_has_had_time_to_notify(tmp_path: Path, server: Server) -> None:
    channels = {"ops": {"alertmanager": {"url": server.url}}, "own": {"webhook": {"url": server.url}}}
    begun_s = time.monotonic()
    result = run(tmp_path, channels, "--hold", "1s")
    assert result.exit_code == 0
    assert time.monotonic() - begun_s >= 1
    assert result.stdout == "ops: accepted\nown: accepted\n"
    assert "fires for 1s, and then ends" in result.stderr
    (first,), (last,) = (body for _, body in server.requests if isinstance(body, list))  # as Alertmanager's API has it
    assert moment(first["endsAt"]) - moment(first["startsAt"]) > timedelta(minutes=3), "until then it fires"
    assert moment(last["endsAt"]) - moment(last["startsAt"]) == timedelta(seconds=1)


def test_only_alertmanager_is_waited_for(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tracegrade.cli.alerts.time.sleep", slept.append)
    channels = {"ops": {"alertmanager": {"url": server.url}}, "own": {"webhook": {"url": server.url}}}
    assert run(tmp_path, channels, "--channel", "own").exit_code == 0
    assert slept == []
    assert run(tmp_path, channels).exit_code == 0
    assert slept == [45]


def moment(written: str) -> datetime:
    return datetime.fromisoformat(written)
