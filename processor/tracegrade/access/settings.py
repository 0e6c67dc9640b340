"""Settings of access: what all servers have in common."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tracegrade.access.rights import Role
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import FilePath
from tracegrade.document.tenants import Tenant


def network_of(text: str) -> IPv4Network | IPv6Network:
    """The network, or the one address, that `text` names.

    Raises:
        ValueError: it names none, or every address there is.
    """
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(f"expected addresses of proxies such as '10.0.0.7' or '10.0.0.0/24', found {text!r}") from None
    if network.prefixlen == 0:
        raise ValueError(f"expected the addresses of your proxies, found {text!r}, which is everybody's")
    return network


def _checked_network(text: str) -> str:
    network_of(text)
    return text


def _checked_header(name: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or _is_taken(name.lower()):
        raise ValueError(f"expected the name of a header such as 'x-scope-orgid', found {name!r}")
    return name.lower()


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.startswith("grpc-") or name.endswith("-bin")  # gRPC's own, and those that are no text


_TAKEN = frozenset({"authorization", "content-type", "content-encoding", "content-length", "host", "cookie"})


class AccessLogSettings(FileModel):
    """The access log: who read or deleted what."""

    max_size_mib: int = Field(256, ge=1, description="The oldest files are deleted when all are larger together")
    max_age: Duration = Field(365 * 86400.0, gt=0, description="Files are deleted when all in them is older")


class AccessSettings(FileModel):
    """Who may call, on every server that has ``auth``, and whose spans a sender's are."""

    tokens_file: FilePath | None = Field(
        None, description="The file of the tokens that `tracegrade tokens` makes; null: tokens.json in the data folder"
    )
    log: AccessLogSettings | None = Field(
        default_factory=AccessLogSettings,
        description="The access log, in `access/` of the data folder and to exporters that take logs; null: none",
    )
    trusted_proxies: list[Annotated[str, AfterValidator(_checked_network)]] = Field(
        default_factory=list, description="Addresses or networks of proxies whose headers about callers are believed"
    )
    tenant_header: Annotated[str, AfterValidator(_checked_header)] | None = Field(
        None,
        description="The header by which a trusted proxy names the tenant of who sends, or uses the page and the API; "
        "from anybody else it is refused",
    )
    user_header: Annotated[str, AfterValidator(_checked_header)] | None = Field(
        None,
        description="The header by which a trusted proxy names the user whom it signed in to the page and the API; "
        "from anybody else it is refused",
    )
    groups_header: Annotated[str, AfterValidator(_checked_header)] | None = Field(
        None, description="The header by which it names the user's groups, with commas between them"
    )
    roles_by_group: dict[str, list[Role]] = Field(
        default_factory=dict, description="The roles of users by their groups, as `sre: [admin]`"
    )
    user_roles: list[Role] = Field(default_factory=list, description="The roles of every user whom a proxy signed in")
    tenants_by_subject: dict[str, Tenant] = Field(
        default_factory=dict,
        description="The tenant of a sender by its client certificate: the common name, or the whole subject as "
        "`CN=agents,O=shop`",
    )

    @model_validator(mode="after")
    def _header_needs_proxies(self) -> "AccessSettings":
        if self.tenant_header is not None and not self.trusted_proxies:
            raise ValueError(
                f"tenant_header {self.tenant_header!r} is believed from trusted_proxies alone, and there are none; "
                "set access.trusted_proxies to the addresses of your proxies"
            )
        return self

    @model_validator(mode="after")
    def _users_need_proxies_and_roles(self) -> "AccessSettings":
        if self.user_header is None:
            named = [name for name in ("groups_header", "roles_by_group", "user_roles") if getattr(self, name)]
            if named:
                raise ValueError(f"{named[0]} is about users whom a proxy signed in; set access.user_header, too")
            return self
        if not self.trusted_proxies:
            raise ValueError(
                f"user_header {self.user_header!r} is believed from trusted_proxies alone, and there are none; set "
                "access.trusted_proxies to the addresses of your proxies"
            )
        if not (self.user_roles or self.roles_by_group):
            raise ValueError("users whom a proxy signed in may do nothing; set access.user_roles or roles_by_group")
        if self.roles_by_group and self.groups_header is None:
            raise ValueError("roles_by_group needs access.groups_header, which says what a user's groups are")
        return self
