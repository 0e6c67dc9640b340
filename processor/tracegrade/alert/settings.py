"""Who is told of alerts, and how often they are checked."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from tracegrade.yaml_file import Duration, FileModel


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"expected http://... or https://..., found {url!r}")
    return url


class WebhookSettings(FileModel):
    """A webhook that takes Alertmanager's JSON form."""

    url: Annotated[str, AfterValidator(_web_address)] = Field(description="Where the JSON is posted")
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Sent with every request, such as Authorization; values are never shown"
    )
    timeout: Duration = Field(default=10.0, gt=0, description="No answer for this long: tried again later")


class ReceiverSettings(FileModel):
    """One place that alerts are sent to."""

    webhook: WebhookSettings = Field(description="A webhook that takes Alertmanager's JSON form")


class AlertsSettings(FileModel):
    """The ``alerts`` section of the configuration file."""

    receivers: dict[str, ReceiverSettings] = Field(
        default_factory=dict, description="By name; every alert goes to all of them. None: alerts are only stored"
    )
    interval: Duration = Field(default=15.0, gt=0, description="How often rules with alerts are checked")
    external_url: str = Field(default="", description="Where people find this TraceGrade; named in notifications")
