import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build.redaction import MAIL, one_span
from build.served_folder import ServedFolder, secret_trace
from tracegrade.cli import main
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import DataFolder


def run(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(main, ["redact", *arguments], catch_exceptions=False, **more)


@pytest.fixture
def wire() -> bytes:
    return one_span(to=f"{MAIL}, bob@corp.io", card="4111 1111 1111 1111", plain="x").SerializeToString()


def test_a_file_shows_what_would_go_and_no_value(tmp_path: Path, wire: bytes) -> None:
    file = tmp_path / "t.binpb"
    file.write_bytes(wire)
    result = run("--dry-run", str(file))
    assert result.exit_code == 0
    assert "The settings have no 'redaction': all detectors were tried" in result.stdout
    assert "3 values would be redacted, in 1 of 1 request" in result.stdout
    assert "xxx@xxxx.xx" in result.stdout
    for value in (MAIL, "4111"):
        assert value not in result.stdout
    assert file.read_bytes() == wire


def test_json_has_one_object_for_each_place_detector_and_action(wire: bytes) -> None:
    result = run("--dry-run", "--format", "json", "-", input=wire)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {
            "place": "to",
            "part": "attributes",
            "detector": "email",
            "action": "mask",
            "count": 2,
            "example": "xxx@xxxx.xx",
        },
        {
            "place": "card",
            "part": "attributes",
            "detector": "card",
            "action": "mask",
            "count": 1,
            "example": "9999 9999 9999 9999",
        },
    ]


def test_the_journal_is_looked_at_by_the_settings(tmp_path: Path, wire: bytes) -> None:
    journal = LocalJournal.open(DataFolder(tmp_path).journal, JournalSettings())
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "acme", 1, wire)).result()
    journal.close()
    config = tmp_path / "config.yaml"
    config.write_text("redaction: {detectors: [], places: [{attribute: plain, action: drop, tenant: [acme]}]}\n")
    result = run("--dry-run", "-c", str(config), "--data-dir", str(tmp_path), "--format", "json")
    assert [json.loads(line)["place"] for line in result.stdout.splitlines()] == ["plain"]
    assert not (tmp_path / "redaction.key").exists()


def test_nothing_found_is_said(tmp_path: Path) -> None:
    file = tmp_path / "t.binpb"
    file.write_bytes(one_span(plain="x").SerializeToString())
    assert "nothing would be redacted: 1 request with 1 item were looked at" in run("--dry-run", str(file)).stdout


def test_stored_traces_are_looked_at(tmp_path: Path) -> None:
    ServedFolder(tmp_path).receive(secret_trace(1, "ann@corp.io"))
    result = run("--dry-run", "--store", "--data-dir", str(tmp_path), "--format", "json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["place"]: row["count"] for row in rows if row["detector"] == "email"} == {
        "gen_ai.tool.call.arguments": 2
    }


def test_bad_input_is_said_in_one_sentence(tmp_path: Path) -> None:
    result = run(str(tmp_path))
    assert result.exit_code == 2
    assert "--dry-run shows what would go" in result.stderr
    result = run("--dry-run", "--data-dir", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert str(tmp_path / "none") in result.stderr
    assert not (tmp_path / "none").exists()
    result = run("--dry-run", "--store", "x.json", "--data-dir", str(tmp_path))
    assert (result.exit_code, "reads no SOURCE; give one of both" in result.stderr) == (2, True)
