"""``tracegrade alerts test``: a notification to see that a channel works."""

import json
from pathlib import Path

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
    assert (result.exit_code, result.stdout) == (0, "ops: sent\n")
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
    assert result.stdout.count("not sent") == 2
    assert "500" in result.stdout


def test_one_channel_can_be_chosen_and_must_be_there(tmp_path: Path, server: Server) -> None:
    channels = {name: {"webhook": {"url": server.url}} for name in ("ops", "own")}
    assert run(tmp_path, channels, "--channel", "own").stdout == "own: sent\n"
    unknown = run(tmp_path, channels, "--channel", "pager")
    assert unknown.exit_code == 2
    assert "no channel 'pager'; expected one of ops, own" in unknown.stderr
    none = run(tmp_path, {})
    assert none.exit_code == 2
    assert "'alerts.channels' says where notifications are sent" in none.stderr
