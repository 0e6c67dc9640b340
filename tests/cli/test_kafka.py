"""Commands over an installation whose journal is in Kafka, while no 'serve' runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tracegrade.cli import main
from tracegrade.config import load_config
from tracegrade.deletion.request import Choice, Deletions
from tracegrade.serve.offline import run_deletion_offline

TRACE = bytes(15) + b"\7"


def _settings(folder: Path, address: str, **kafka: Any) -> Path:
    path = folder / "config.yaml"
    settings = {
        "data_dir": str(folder / "data"),
        "journal": {"kafka": {"brokers": [address], **kafka}},
        "store": {"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"},
    }
    path.write_text(json.dumps(settings))
    return path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_replaying_says_that_no_broker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.journal.kafka.range._ANSWERS_WITHIN_S", 0.5)
    done = _run("replay", "-c", str(_settings(tmp_path, "127.0.0.1:9")))
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: journal.kafka: 127.0.0.1:9 do not say what there is: ")
    assert "Traceback" not in done.output


def test_config_check_finds_what_the_client_does_not_take(tmp_path: Path) -> None:
    done = _run("config", "check", str(_settings(tmp_path, "127.0.0.1:9", client={"no.such": 1})))
    assert done.exit_code == 2
    assert 'journal.kafka.client: No such configuration property: "no.such"' in done.stderr


def test_config_show_masks_the_secrets_of_the_client(tmp_path: Path) -> None:
    done = _run("config", "show", str(_settings(tmp_path, "127.0.0.1:9", client={"sasl.password": "hunter2"})))
    assert done.exit_code == 0
    assert "sasl.password: '**********'" in done.stdout
    assert "hunter2" not in done.stdout


def test_a_deletion_is_remembered_though_kafka_keeps_its_messages(tmp_path: Path) -> None:
    config = load_config(_settings(tmp_path, "127.0.0.1:9"))
    deletions = Deletions(config.data_path)
    late = deletions.request(Choice(), frozenset([TRACE]), late=True)  # of which no store knows anything
    assert run_deletion_offline(config, late).state == "done"
    assert TRACE in deletions.tombstones()
    assert not (config.data_path / "journal").exists()


def test_doctor_tells_of_brokers_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.doctor.kafka._WITHIN_S", 0.5)
    (tmp_path / "data").mkdir(mode=0o700)
    done = _run("doctor", "--format", "json", "-c", str(_settings(tmp_path, "127.0.0.1:9")))
    (finding,) = [line for line in map(json.loads, done.stdout.splitlines()) if line.get("check") == "kafka"]
    assert finding["level"] == "error"
    assert "journal.kafka.brokers: none of 127.0.0.1:9 answers within 0.5 s" in finding["found"]
    assert done.stderr == ""
