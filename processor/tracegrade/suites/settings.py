"""Settings of suites."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, field_serializer

from tracegrade.document.file_model import FileModel
from tracegrade.document.paths import FilePath

if TYPE_CHECKING:
    from tracegrade.config import Config

_ENTRY = re.compile(
    r"(?:(?P<name>[^\[\]/@:\s]+?)\.?|\[(?P<six>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?|(?P<bare>[0-9a-f:.]*:[0-9a-f:.]*)"
)


def split_host(entry: str) -> tuple[str, int | None]:
    """The host, in small letters, and the port of ``HOST``, ``HOST:PORT`` or ``[V6]:PORT``; None for any port.

    Raises:
        ValueError: it is something else, such as an address with a scheme or a network.
    """
    found = _ENTRY.fullmatch(entry.strip().lower())
    if found is None:
        raise ValueError(f"expected HOST or HOST:PORT, found {entry!r}")
    host = found["name"] or found["six"] or found["bare"]
    try:
        address = ip_address(host)
        host = str(getattr(address, "ipv4_mapped", None) or address)
    except ValueError:
        if not found["name"]:
            raise ValueError(f"expected HOST or HOST:PORT, found {entry!r}") from None
    return host, int(found["port"]) if found["port"] else None


def _checked_host(entry: str) -> str:
    split_host(entry)
    return entry


class JobsSettings(FileModel):
    """How many jobs run at a time; further ones wait."""

    at_a_time: int = Field(4, ge=1, le=64, description="Most jobs that run at a time")
    of_one_token: int = Field(2, ge=1, le=64, description="Of these, most that were submitted with the same token")
    of_one_provider: int = Field(1, ge=1, le=64, description="Of these, most that ask the same provider of models")


class SuitesSettings(FileModel):
    """Suites of cases, and their runs."""

    models: FilePath = Field(
        "models.yaml", description="The file that says which models there are, for runs as jobs; read when one begins"
    )
    jobs: JobsSettings = Field(default_factory=JobsSettings, description="How many of them run at a time")

    mcp_hosts: list[Annotated[str, AfterValidator(_checked_host)]] = Field(
        default_factory=list,
        description="MCP servers that may be asked for tools though their address is private or loopback: HOST or "
        "HOST:PORT. Link-local addresses and own listeners are never asked",
    )

    @field_serializer("models", when_used="json")
    def _absolute(self, path: str) -> str:
        """The default is relative to the working directory; what is printed means the same anywhere."""
        return str(Path(path).absolute())


def suites_settings(config: "Config") -> SuitesSettings:
    """The section ``suites`` of all settings."""
    found: SuitesSettings = config.section("suites")
    return found
