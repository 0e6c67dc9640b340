"""Settings of one OTLP exporter, in the collector's words; loads no client."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator

from tracegrade.display import without_secrets
from tracegrade.document.address import address_text, is_loopback
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import FilePath, is_opened
from tracegrade.document.tenants import ForTenants
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.retry import RetrySettings
from tracegrade.semconv import HEARD_HEADER, INSTANCE_HEADER

if TYPE_CHECKING:
    from ssl import SSLContext

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@?#]+):(?P<port>\d{1,5})")
_HEADER_NAME = re.compile(r"[0-9A-Za-z_.-]+")
_USUAL_PORT = {"grpc": 4317, "http": 4318}
_OWN_HEADERS = {"content-type", "content-encoding", "content-length", "host", "te", "user-agent"} | {
    INSTANCE_HEADER,
    HEARD_HEADER,
}


def _readable(path: str, info: ValidationInfo) -> str:
    if not is_opened(info):
        return path
    try:
        with Path(path).open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"expected a readable file, found {path!r}: {error.strerror}") from None


ReadableFile = Annotated[FilePath, AfterValidator(_readable)]


class ClientTls(FileModel):
    """How to reach the peer: encrypted unless said otherwise."""

    insecure: bool = Field(False, description="Send in plaintext.")
    ca_file: ReadableFile | None = Field(None, description="Trust these authorities (PEM) instead of the system's.")
    cert_file: ReadableFile | None = Field(None, description="Our certificate (PEM), for mutual TLS.")
    key_file: ReadableFile | None = Field(None, description="The key of `cert_file` (PEM).")
    server_name_override: str | None = Field(None, description="Expect this name in the peer's certificate.")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "ClientTls":
        if (self.cert_file is None) != (self.key_file is None):
            found, lacking = ("cert_file", "key_file") if self.cert_file else ("key_file", "cert_file")
            raise ValueError(f"found {found} without {lacking}; mutual TLS needs both")
        if self.insecure and (named := self.model_fields_set - {"insecure"}):
            raise ValueError(f"insecure: true sends in plaintext, but {', '.join(sorted(named))} needs TLS; remove one")
        return self


def _header_names(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower().endswith("-bin"):
            raise ValueError(f"{name!r} is not a header name: expected letters, digits, '-', '_' and '.', not '-bin'")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"header {name!r} is set by the exporter itself; remove it")
        if not (text := value.get_secret_value()).isascii() or not text.isprintable():
            raise ValueError(f"the value of header {name!r} holds more than printable ASCII")  # not shown: a secret
    return {name.lower(): value for name, value in headers.items()}


class ExporterSettings(ForTenants):
    """One ``exporters.otlp`` entry: where originals and results go."""

    protocol: Literal["grpc", "http"] = Field("grpc", description="OTLP/gRPC, or OTLP/HTTP with protobuf bodies.")
    endpoint: Annotated[str, address_text("collector:4317")] = Field(
        description="grpc: host:port. http: a URL; /v1/traces, /v1/logs and /v1/metrics are added to it."
    )
    tls: ClientTls = Field(default_factory=ClientTls, description="Encrypted by default; see `insecure`.")
    headers: Annotated[dict[str, SecretStr], AfterValidator(_header_names)] = Field(
        default_factory=dict, description="Sent with every request; values are never shown."
    )
    compression: Literal["auto", "gzip", "none"] = Field(
        "auto", description="Compression of requests; auto: gzip, but none to this machine's own addresses."
    )
    timeout: Duration = Field(5.0, gt=0, description="Longest time one attempt may take.")
    retry_on_failure: RetrySettings = Field(default_factory=RetrySettings, description="When to try again.")
    when_full: Literal["refuse", "drop_oldest"] = Field(
        "refuse",
        description="When this exporter stays behind the journal's bound: refuse what senders send, or drop the "
        "oldest it has not sent.",
    )
    signals: list[Literal["traces", "logs", "metrics"]] = Field(
        ["traces", "logs", "metrics"], min_length=1, description="The signals that are sent to this exporter."
    )

    temporality: Literal["cumulative", "delta"] = Field(
        "cumulative",
        description="Of our own counters and histograms: the sum since the start, or what changed since the last time. "
        "Metrics of senders go as they come.",
    )

    @model_validator(mode="after")
    def _endpoint_is_complete(self) -> "ExporterSettings":
        check = _check_grpc if self.protocol == "grpc" else _check_http
        check(self.endpoint, self.tls)
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Host (without brackets) and port of the endpoint."""
        if self.protocol == "http":
            url = urlsplit(self.endpoint)
            return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        host, _, port = self.endpoint.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def compresses(self) -> bool:
        """Whether requests are compressed, by gzip."""
        if self.compression == "auto":
            return not is_loopback(self.address[0])
        return self.compression == "gzip"

    def tls_context(self) -> "SSLContext | None":
        """A context made from the files as they are now; None for plaintext.

        Raises:
            TraceGradeError: a file is missing, or is not a certificate or key.
        """
        import ssl  # only commands that send need it

        if self.tls.insecure or self.endpoint.startswith("http://"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls.ca_file)
            if self.tls.cert_file is not None:
                context.load_cert_chain(self.tls.cert_file, self.tls.key_file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise TraceGradeError(
                f"exporter to {self.endpoint}: tls: expected PEM files, a certificate with its key, found something "
                f"else: {error}"
            ) from None
        return context

    def takes(self, signal: Signal) -> bool:
        """Whether requests of `signal` go to this exporter."""
        return signal.name.lower() in self.signals


def _check_grpc(endpoint: str, tls: ClientTls) -> None:
    found = without_secrets(endpoint)
    if "://" in endpoint:
        bare = found.partition("://")[2].rstrip("/")
        plain = " and tls: {insecure: true}" if endpoint.startswith("http://") and not tls.insecure else ""
        raise ValueError(f"endpoint: expected host:port for protocol grpc, found {found!r}; write {bare!r}{plain}")
    match = _HOST_PORT.fullmatch(endpoint)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(
            f"endpoint: expected host:port, found {found!r}; OTLP/gRPC usually listens on {_USUAL_PORT['grpc']}"
        )


def _check_http(endpoint: str, tls: ClientTls) -> None:
    try:
        url = urlsplit(endpoint)
        whole = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is not a number, or brackets that do not close
        whole = False
    if not whole or url.query or url.fragment or url.username is not None or re.search(r"\s", endpoint):
        scheme = "http" if tls.insecure else "https"
        raise ValueError(
            f"endpoint: expected a URL such as '{scheme}://collector:{_USUAL_PORT['http']}' for protocol http, "
            f"found {without_secrets(endpoint)!r}"
        )
    if path := re.search(r"/v1/(traces|logs|metrics)/?$", url.path):
        raise ValueError(f"endpoint: found {without_secrets(endpoint)!r}; leave out {path.group()!r}, it is added")
    if url.scheme == "https" and tls.insecure:
        raise ValueError("endpoint says https and tls.insecure says plaintext; change one of them")
    if url.scheme == "http" and tls.model_fields_set - {"insecure"}:
        raise ValueError("endpoint says http, which is plaintext, and tls has settings; write https, or remove them")
