"""The receivers' settings, in the collector's words."""

from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from tracegrade.yaml_file import Duration, FileModel

_MIB = 1024 * 1024


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: anything else; a missing host is not taken for "all addresses".
    """
    host, colon, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected host:port such as '127.0.0.1:4317', found {endpoint!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; names other than localhost are not looked up."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _checked_endpoint(endpoint: str) -> str:
    split_endpoint(endpoint)
    return endpoint


Endpoint = Annotated[str, AfterValidator(_checked_endpoint)]
Mebibytes = Annotated[int, Field(ge=1, le=1024)]


class TlsServerSettings(FileModel):
    """A server's certificate: PEM files. With ``client_ca_file`` clients must show a certificate of that authority."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


class _ListenSettings(FileModel):
    """What both protocols have in common."""

    endpoint: Endpoint
    tls: TlsServerSettings | None = None
    insecure: bool = False

    @model_validator(mode="after")
    def _refuse_plaintext_from_afar(self) -> "_ListenSettings":
        host, _ = split_endpoint(self.endpoint)
        if self.tls is None and not self.insecure and not is_loopback(host):
            raise ValueError(
                f"{self.endpoint!r} can be reached from other machines and has no tls; "
                "set tls, or insecure: true when the network is trusted"
            )
        return self


class KeepaliveServerSettings(FileModel):
    """When the server pings, and closes, a gRPC connection; unset is never."""

    max_connection_idle: Duration | None = None
    max_connection_age: Duration | None = None
    max_connection_age_grace: Duration | None = None
    time: Duration = 7200.0
    timeout: Duration = 20.0


class KeepaliveEnforcementSettings(FileModel):
    """How often clients may ping; those that do it more often are disconnected (ENHANCE_YOUR_CALM)."""

    min_time: Duration = 300.0
    permit_without_stream: bool = False


class KeepaliveSettings(FileModel):
    """gRPC keep-alive, both ways."""

    server_parameters: KeepaliveServerSettings = KeepaliveServerSettings()
    enforcement_policy: KeepaliveEnforcementSettings = KeepaliveEnforcementSettings()


class GrpcSettings(_ListenSettings):
    """OTLP/gRPC. ``max_recv_msg_size_mib`` bounds a request before and after decompression."""

    endpoint: Endpoint = "127.0.0.1:4317"
    max_recv_msg_size_mib: Mebibytes = 64
    max_concurrent_streams: Annotated[int, Field(ge=1)] = 256
    keepalive: KeepaliveSettings = KeepaliveSettings()

    @property
    def max_recv_msg_size_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_recv_msg_size_mib * _MIB


class HttpSettings(_ListenSettings):
    """OTLP/HTTP. ``max_request_body_size_mib`` bounds a body before and after decompression.

    ``read_header_timeout`` and ``read_timeout`` bound how long a client may take over its headers and its body,
    ``idle_timeout`` how long a connection may rest between requests.
    """

    endpoint: Endpoint = "127.0.0.1:4318"
    max_request_body_size_mib: Mebibytes = 64
    read_header_timeout: Duration = 60.0
    read_timeout: Duration = 30.0
    idle_timeout: Duration = 60.0

    @property
    def max_request_body_size_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_request_body_size_mib * _MIB


class ProtocolsSettings(FileModel):
    """Which protocols are served: those whose key is present. ``grpc:`` alone means ``grpc: {}``."""

    grpc: GrpcSettings | None = None
    http: HttpSettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _present_is_enabled(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: {} if item is None and key in ("grpc", "http") else item for key, item in value.items()}
        return value

    @model_validator(mode="after")
    def _refuse_none(self) -> "ProtocolsSettings":
        if self.grpc is None and self.http is None:
            raise ValueError("expected grpc, http or both; a receiver without a protocol takes nothing")
        return self


class OtlpReceiverSettings(FileModel):
    """The OTLP receiver. ``max_in_flight_mib`` bounds the bytes of all requests that are read, checked or made durable
    at one moment; beyond it senders are asked to come back.
    """

    protocols: ProtocolsSettings = ProtocolsSettings(grpc=GrpcSettings(), http=HttpSettings())
    max_in_flight_mib: Annotated[int, Field(ge=1)] = 256

    @property
    def max_in_flight_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_in_flight_mib * _MIB

    @model_validator(mode="after")
    def _refuse_bound_below_one_request(self) -> "OtlpReceiverSettings":
        grpc, http = self.protocols.grpc, self.protocols.http
        largest = max(grpc.max_recv_msg_size_mib if grpc else 0, http.max_request_body_size_mib if http else 0)
        if self.max_in_flight_mib < 2 * largest:
            raise ValueError(
                f"max_in_flight_mib: expected at least {2 * largest}, twice the largest request allowed, "
                f"found {self.max_in_flight_mib}"
            )
        return self


class ReceiversSettings(FileModel):
    """``receivers:``."""

    otlp: OtlpReceiverSettings = OtlpReceiverSettings()
