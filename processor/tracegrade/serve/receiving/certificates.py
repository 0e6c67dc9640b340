"""Watches the certificates of the servers: what a changed file made unusable is a condition, and each end a metric."""

import time
from collections.abc import Callable, Iterator

from tracegrade.config import Config
from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.certificate import read_certificate
from tracegrade.receive.certificate_end import certificate_end
from tracegrade.receive.settings import TlsServerSettings
from tracegrade.telemetry.metrics import Telemetry


class CertificateWatch:
    """The certificates that the settings name, as their files hold them now."""

    def __init__(self, config: Config, telemetry: Telemetry, now_s: Callable[[], float] = time.time) -> None:
        self._watched = dict(_with_tls(config))
        self._telemetry = telemetry
        self._now_s = now_s
        self._ends_s: dict[str, float] = {}  # of those in force

    def poll(self) -> None:
        """Read them again; one that cannot be used leaves the end of the one that is in force."""
        for server, tls in self._watched.items():
            problem: str | None = None
            try:
                self._ends_s[server] = certificate_end(read_certificate(server, tls).chain).timestamp()
            except (TraceGradeError, ValueError) as error:
                problem = str(error)
            self._telemetry.conditions.say("certificate_refused", problem, server)
            if server in self._ends_s:
                self._telemetry.set(
                    "tracegrade.certificate.remaining", self._ends_s[server] - self._now_s(), server=server
                )


def _with_tls(config: Config) -> Iterator[tuple[str, TlsServerSettings]]:
    """Each server with TLS, by the path of its settings."""
    protocols = config.receivers.otlp.protocols
    servers = {
        "receivers.otlp.protocols.grpc": protocols.grpc,
        "receivers.otlp.protocols.http": protocols.http,
        "telemetry": config.telemetry,
        "web": config.web,
    }
    for path, settings in servers.items():
        if settings is not None and settings.tls is not None:
            yield path, settings.tls
