"""Certificates of servers, watched."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from tracegrade.config import Config
from tracegrade.serve.receiving.certificates import CertificateWatch
from tracegrade.telemetry.metrics import Telemetry

WHERE = "receivers.otlp.protocols.grpc"


def write(folder: Path, days: float) -> None:
    made = trustme.CA().issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=days))
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))


def test_a_certificate_says_how_long_it_holds_and_one_that_cannot_be_used_is_a_condition(tmp_path: Path) -> None:
    write(tmp_path, 10)
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    config = Config.model_validate({"receivers": {"otlp": {"protocols": {"grpc": {"tls": tls}}}}})
    telemetry = Telemetry("receive")
    watch = CertificateWatch(config, telemetry)

    def left_days() -> float:
        watch.poll()
        return telemetry.value("tracegrade.certificate.remaining", server=WHERE) / 86400

    assert 9.9 < left_days() <= 10
    shutil.copy(tmp_path / "cert.pem", tmp_path / "old.pem")
    write(tmp_path, 90)
    (tmp_path / "new.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
    (tmp_path / "cert.pem").write_bytes((tmp_path / "old.pem").read_bytes())
    assert 9.9 < left_days() <= 10, "of the one in force"
    (condition,) = telemetry.conditions.current()
    assert (condition.name, condition.where) == ("certificate_refused", WHERE)
    assert "are not a certificate with its key" in condition.message
    (tmp_path / "cert.pem").write_bytes((tmp_path / "new.pem").read_bytes())
    assert 89.9 < left_days() <= 90
    assert telemetry.conditions.current() == []


def test_one_that_has_ended_has_less_than_no_time_left(tmp_path: Path) -> None:
    write(tmp_path, 10)
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    config = Config.model_validate({"telemetry": {"tls": tls}})
    telemetry = Telemetry("receive")
    CertificateWatch(config, telemetry, lambda: time.time() + 11 * 86400).poll()
    assert -1.01 < telemetry.value("tracegrade.certificate.remaining", server="telemetry") / 86400 < -0.99
