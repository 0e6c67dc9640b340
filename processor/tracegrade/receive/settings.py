"""The receivers' settings, in the collector's words."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr, model_validator

from tracegrade.document.address import address_text, is_loopback
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import FilePath

SHORTEST_TOKEN = 16

_MIB = 1024 * 1024


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: anything else; a missing host is not taken for "all addresses".
    """
    host, colon, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or "/" in host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected host:port such as '127.0.0.1:4317', found {endpoint!r}")
    return host, int(port)


def _checked_endpoint(endpoint: str) -> str:
    split_endpoint(endpoint)
    return endpoint


Endpoint = Annotated[str, address_text("127.0.0.1:4317"), AfterValidator(_checked_endpoint)]
Mebibytes = Annotated[int, Field(ge=1, le=1024)]


class TlsServerSettings(FileModel):
    """A server's certificate: PEM files. With ``client_ca_file`` clients must show a certificate of that authority."""

    cert_file: FilePath = Field(description="The server's certificate and its chain (PEM)")
    key_file: FilePath = Field(description="The key of `cert_file`")
    client_ca_file: FilePath | None = Field(None, description="Clients must have a certificate of this authority (PEM)")


def token_mistake(text: str) -> str | None:
    """Why `text` cannot be a bearer token, without showing it; None when it can."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        return "expected a token of printable ASCII without spaces, found something else"
    if len(text) < SHORTEST_TOKEN:
        return (
            f"expected a token of at least {SHORTEST_TOKEN} characters, which nobody can guess, found one of "
            f"{len(text)}; 'openssl rand -hex 32' makes one, and so does 'tracegrade tokens new'"
        )
    return None


def _checked_token(token: SecretStr) -> SecretStr:
    if (why := token_mistake(token.get_secret_value())) is not None:
        raise ValueError(why)
    return token


def _refuse_repeated(tokens: list[SecretStr]) -> list[SecretStr]:
    known: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if (first := known.setdefault(token.get_secret_value(), number)) != number:
            raise ValueError(f"number {number + 1} is the same token as number {first + 1}; remove one")
    return tokens


class AuthSettings(FileModel):
    """Bearer tokens: who shows one of them, or one that ``tracegrade tokens`` made, is let in.

    Those that stand here have every right. ``{}``: only those that were made.
    """

    tokens: Annotated[list[Annotated[SecretStr, AfterValidator(_checked_token)]], AfterValidator(_refuse_repeated)] = (
        Field(
            default_factory=list, description="Bearer tokens of clients that are let in; keep them in the environment"
        )
    )
    token_file: FilePath | None = Field(None, description="A file with one token per line; read again when it changes")


class ListenSettings(FileModel):
    """Settings that all servers but the health page have."""

    endpoint: Endpoint
    tls: TlsServerSettings | None = Field(None, description="Encrypt; needed beyond loopback unless `insecure`")
    auth: AuthSettings | None = Field(
        None, description="Ask for a bearer token; beyond loopback this, or client certificates, unless `insecure`"
    )
    insecure: bool = Field(False, description="Listen beyond loopback without `tls` or without `auth`")

    @model_validator(mode="after")
    def _is_not_open_to_all(self) -> "ListenSettings":
        host, _ = split_endpoint(self.endpoint)
        if not self.insecure and not is_loopback(host) and (missing := self._missing()):
            raise ValueError(
                f"{self.endpoint!r} can be reached from other machines and has no {' and no '.join(missing)}; "
                f"set {' and '.join(missing)}, or insecure: true when the network is trusted"
            )
        return self

    @property
    def knows_callers(self) -> bool:
        """Whether callers show a token or a certificate."""
        return self.auth is not None or (self.tls is not None and self.tls.client_ca_file is not None)

    def _missing(self) -> list[str]:
        """Settings that are missing before it may be reached from other machines."""
        return [
            *(["tls"] if self.tls is None else []),
            *([] if self.knows_callers else ["auth (or tls.client_ca_file)"]),
        ]


class KeepaliveServerSettings(FileModel):
    """When the server pings, and closes, a gRPC connection; null is never."""

    max_connection_idle: Duration | None = Field(300.0, description="Close a connection without requests after this")
    max_connection_age: Duration | None = Field(None, description="Close any connection after this")
    max_connection_age_grace: Duration | None = Field(None, description="How long requests in work may then still take")
    time: Duration = Field(7200.0, description="Ping a connection that was quiet for this long")
    timeout: Duration = Field(20.0, description="No answer to a ping for this long: the connection is closed")


class KeepaliveEnforcementSettings(FileModel):
    """The shortest time between a client's pings; clients that ping more often are disconnected (ENHANCE_YOUR_CALM)."""

    min_time: Duration = Field(300.0, description="The least time between two pings of a client")
    permit_without_stream: bool = Field(False, description="Allow pings while no request is in work")


class KeepaliveSettings(FileModel):
    """gRPC keep-alive, both ways."""

    server_parameters: KeepaliveServerSettings = Field(KeepaliveServerSettings(), description="What the server does")
    enforcement_policy: KeepaliveEnforcementSettings = Field(
        KeepaliveEnforcementSettings(), description="What clients may do"
    )


class GrpcSettings(ListenSettings):
    """OTLP/gRPC. ``max_recv_msg_size_mib`` bounds a request before and after decompression."""

    endpoint: Endpoint = Field("127.0.0.1:4317", description="host:port to listen on; loopback by default")
    max_recv_msg_size_mib: Mebibytes = Field(64, description="Largest request, before and after decompression")
    max_connections: Annotated[int, Field(ge=1)] = Field(
        1000, description="Most connections at a time; beyond it, the longest silent one is closed (Linux)"
    )
    read_header_timeout: Duration = Field(60.0, gt=0, description="How long a client may take to begin a connection")
    read_timeout: Duration = Field(30.0, gt=0, description="How long a client may take to send a request")
    max_concurrent_streams: Annotated[int, Field(ge=1)] = Field(
        256, description="Most requests at a time on one connection"
    )
    keepalive: KeepaliveSettings = Field(KeepaliveSettings(), description="Pings and the age of connections")

    @property
    def max_recv_msg_size_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_recv_msg_size_mib * _MIB


class HttpSettings(ListenSettings):
    """OTLP/HTTP. ``max_request_body_size_mib`` bounds a body before and after decompression.

    ``read_header_timeout`` and ``read_timeout`` bound how long a client may take over its headers and its body,
    ``idle_timeout`` how long a connection may rest between requests.
    """

    endpoint: Endpoint = Field("127.0.0.1:4318", description="host:port to listen on; loopback by default")
    max_request_body_size_mib: Mebibytes = Field(64, description="Largest body, before and after decompression")
    max_connections: Annotated[int, Field(ge=1)] = Field(
        1000, description="Most connections at a time; beyond it, the one that has been waited for longest is closed"
    )
    read_header_timeout: Duration = Field(60.0, gt=0, description="How long a client may take to send its headers")
    read_timeout: Duration = Field(30.0, gt=0, description="How long a client may take to send its body")
    idle_timeout: Duration = Field(60.0, gt=0, description="How long a connection may be quiet between requests")

    @property
    def max_request_body_size_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_request_body_size_mib * _MIB


class ProtocolsSettings(FileModel):
    """Which protocols are served: those whose key is present. ``grpc:`` alone means ``grpc: {}``."""

    grpc: GrpcSettings | None = Field(None, description="OTLP/gRPC")
    http: HttpSettings | None = Field(None, description="OTLP/HTTP with protobuf or JSON bodies")

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
    """The OTLP receiver. ``max_in_flight_mib`` bounds the memory of all requests that are read, checked or made durable
    at one moment, what JSON takes once decoded included; beyond it senders are asked to come back. Protobuf is decoded
    a piece at a time, which takes 100 MiB more at most.
    """

    protocols: ProtocolsSettings = Field(
        ProtocolsSettings(grpc=GrpcSettings(), http=HttpSettings()), description="Those that are named; both by default"
    )
    max_in_flight_mib: Annotated[int, Field(ge=1)] = Field(
        512, description="Memory for all requests that are read, checked and written at a time; JSON counts as decoded"
    )
    max_request_messages: Annotated[int, Field(ge=524_288)] = Field(
        4_000_000, description="Most protobuf messages (spans, attributes, values, ...) that one request may hold"
    )
    max_compression_ratio: Annotated[int, Field(ge=1)] = Field(
        200, description="How many times its size a request may have after decompression, if that is more than 512 KiB"
    )

    @property
    def max_in_flight_bytes(self) -> int:
        """The bound in bytes."""
        return self.max_in_flight_mib * _MIB

    @property
    def max_request_bytes(self) -> int:
        """The largest request that any protocol takes."""
        return self._largest_request_mib * _MIB

    @property
    def _largest_request_mib(self) -> int:
        grpc, http = self.protocols.grpc, self.protocols.http
        return max(grpc.max_recv_msg_size_mib if grpc else 0, http.max_request_body_size_mib if http else 0)

    @model_validator(mode="after")
    def _refuse_bound_below_one_request(self) -> "OtlpReceiverSettings":
        largest = self._largest_request_mib
        if self.max_in_flight_mib < 2 * largest:
            raise ValueError(
                f"max_in_flight_mib: expected at least {2 * largest}, twice the largest request allowed, "
                f"found {self.max_in_flight_mib}"
            )
        return self


class ReceiversSettings(FileModel):
    """``receivers:``."""

    otlp: OtlpReceiverSettings = Field(OtlpReceiverSettings(), description="The OTLP receiver")
