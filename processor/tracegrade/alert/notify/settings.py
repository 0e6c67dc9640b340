"""The settings of notifications: channels, routes, and what they link to."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, SecretStr, model_validator

from tracegrade.alert.notify.links import TRACE_ID, Links
from tracegrade.alert.notify.routes import Route
from tracegrade.display import without_secrets
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.tenants import ForTenants
from tracegrade.rule.mistakes import mistake, refuse


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"expected http://... or https://..., found {without_secrets(url)!r}")
    return url


def _web_address_or_none(url: str) -> str:
    return _web_address(url) if url else url


def _secret_address(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("expected http://... or https://..., found something else, which is not shown: it is a secret")
    return url


_Shown = PlainSerializer(without_secrets, return_type=str, when_used="json")
WebAddress = Annotated[str, AfterValidator(_web_address), _Shown]
SecretAddress = Annotated[SecretStr, AfterValidator(_secret_address)]


class HttpSettings(FileModel):
    """The settings that all channels over HTTP share."""

    timeout: Duration = Field(
        default=10.0, gt=0, description="An attempt without an answer for this long has failed; it is tried again later"
    )


class WebhookSettings(HttpSettings):
    """A webhook that takes Alertmanager's JSON form."""

    url: SecretAddress = Field(description="Where the JSON is posted; never shown, since many hold a token")
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Sent with every request, such as Authorization; values are never shown"
    )
    secret: SecretStr | None = Field(
        default=None, description="Signs every request, as Standard Webhooks do (header webhook-signature)"
    )


class AlertmanagerSettings(HttpSettings):
    """Alertmanager itself, by its API v2."""

    url: WebAddress = Field(description="Its address, such as http://alertmanager:9093")
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Sent with every request, such as Authorization; values are never shown"
    )


class SlackSettings(HttpSettings):
    """An incoming webhook of Slack, or of a service that takes the same form."""

    url: SecretAddress = Field(description="The webhook's URL, which is a secret")


class PagerDutySettings(HttpSettings):
    """PagerDuty's Events API v2."""

    routing_key: SecretStr = Field(description="The integration key of the service")
    url: WebAddress = Field(default="https://events.pagerduty.com/v2/enqueue", description="Where events are posted")


class EmailSettings(FileModel):
    """Mail, by SMTP."""

    host: str = Field(description="The mail server")
    port: int = Field(default=587, ge=1, le=65535, description="The port of the mail server")
    tls: Literal["starttls", "tls", "none"] = Field(default="starttls", description="How the connection is protected")
    username: str = Field(default="", description="For servers that require it")
    password: SecretStr = Field(default=SecretStr(""), description="For servers that require it; never shown")
    sender: str = Field(description="The sender's address")
    to: list[str] = Field(min_length=1, description="The addresses that get the mail")
    timeout: Duration = Field(
        default=10.0, gt=0, description="An attempt without an answer for this long has failed; it is tried again later"
    )


def _known_to_apprise(urls: list[SecretStr]) -> list[SecretStr]:
    try:
        from apprise import Apprise
    except ModuleNotFoundError:
        raise ValueError("apprise needs an extra: pip install 'tracegrade[notify]'") from None
    for number, url in enumerate(urls):
        if Apprise.instantiate(url.get_secret_value()) is None:
            raise ValueError(f"apprise knows no address of the form of number {number + 1}")
    return urls


class AppriseSettings(FileModel):
    """More than a hundred other services, by apprise; needs the extra tracegrade[notify]."""

    urls: Annotated[list[SecretStr], AfterValidator(_known_to_apprise)] = Field(
        min_length=1, description="As apprise writes them, such as ntfys://topic; never shown"
    )


OF_EXPORTERS = "exporters."
"""How the names begin under which exporters that take logs are notified, as channels are."""


class ChannelSettings(ForTenants):
    """One channel, of exactly one kind."""

    webhook: WebhookSettings | None = Field(default=None, description="A webhook that takes Alertmanager's JSON form")
    alertmanager: AlertmanagerSettings | None = Field(default=None, description="Alertmanager, by its API v2")
    slack: SlackSettings | None = Field(default=None, description="An incoming webhook of Slack")
    pagerduty: PagerDutySettings | None = Field(default=None, description="PagerDuty's Events API v2")
    email: EmailSettings | None = Field(default=None, description="Mail, by SMTP")
    apprise: AppriseSettings | None = Field(default=None, description="Other services, by apprise")

    @property
    def kind(self) -> str:
        """The one that is set."""
        return next(name for name in KINDS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of {', '.join(KINDS)}, found {' and '.join(given) or 'none'}")
        return self


KINDS = [name for name in ChannelSettings.model_fields if name not in ForTenants.model_fields]
"""Of channels, by their names in the settings."""


def _trace_address(url: str) -> str:
    if TRACE_ID not in url:
        raise ValueError(f"expected {TRACE_ID} in it, where the trace's id goes, found {url!r}")
    return _web_address(url)


class NotificationSettings(FileModel):
    """Who is notified: the part of the ``alerts`` section of the configuration file."""

    channels: dict[str, ChannelSettings] = Field(
        default_factory=dict, description="Where notifications are sent, by name. None: alerts are only stored"
    )
    routes: list[Route] = Field(
        default=[],
        description="Which alert goes to which channels: those of the first matching route; all when none matches",
    )
    repeat: Duration = Field(default=14_400.0, gt=0, description="What still fires is notified again after this time")
    external_url: Annotated[str, AfterValidator(_web_address_or_none), _Shown] = Field(
        default="",
        description="The public address of this TraceGrade's page; notifications link to it and to its traces",
    )
    trace_url: Annotated[str, AfterValidator(_trace_address), _Shown] | None = Field(
        default=None,
        description="The address of a trace, if on another page, such as https://jaeger.example/trace/{trace_id}",
    )

    runbook_url: Annotated[str, AfterValidator(_web_address_or_none), _Shown] = Field(
        default="",
        description="The address of what to do about a rule's alerts, such as https://wiki.example/runbooks/{rule}; "
        "notifications and the pages of incidents link to it",
    )

    @property
    def links(self) -> Links:
        """The addresses that notifications link to."""
        page = self.external_url.rstrip("/")
        trace_url = self.trace_url or (f"{page}/traces/{TRACE_ID}" if page else "")
        return Links(self.external_url, trace_url, self.runbook_url)

    @model_validator(mode="after")
    def _known_channels(self) -> Self:
        known = ", ".join(self.channels) or "none: 'alerts.channels' has no such name"
        mistakes = [
            mistake(f"no channel {name!r}; expected one of {known}", "routes", number, "channels", place)
            for number, route in enumerate(self.routes)
            for place, name in enumerate(route.channels)
            if name not in self.channels
        ]
        mistakes += [
            mistake(
                f"expected a name that begins otherwise: {OF_EXPORTERS}NAME is notified as an exporter",
                "channels",
                name,
            )
            for name in self.channels
            if name.startswith(OF_EXPORTERS)
        ]
        if mistakes:
            raise refuse(mistakes)
        return self
