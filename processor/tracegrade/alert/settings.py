"""The settings of alerts: how often rules are checked, when what fires has ended, and who is notified."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tracegrade.alert.notify.settings import NotificationSettings
from tracegrade.document.file_model import Duration
from tracegrade.rule.mistakes import refuse_what_went
from tracegrade.store.diagnosis import SLICED_BY

_WENT = {
    "group_by": "is no longer a setting: what fell together is one incident, with one notification",
    "maintenance": (
        "is no longer a setting: 'tracegrade alerts silence --for 2h' from the job that begins the work; or send to "
        "Alertmanager, which has time intervals"
    ),
}


def _attributes(names: list[str]) -> list[str]:
    if known := [name for name in names if name in SLICED_BY]:
        raise ValueError(f"expected names of attributes, found {known[0]!r}, which alerts tell anyway; remove it")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"expected each attribute once, found {', '.join(map(repr, twice))} more than once")
    return names


class AlertsSettings(NotificationSettings):
    """The ``alerts`` section of the configuration file."""

    replaced_after: Duration = Field(
        default=600.0,
        gt=0,
        description="What fires at one release is ended when it sent nothing for this long while another release did",
    )
    stale_after: Duration = Field(
        default=86_400.0,
        gt=0,
        description="What fires is ended when nothing came for this long: no result, or for lost coverage no trace",
    )
    slices: Annotated[list[Annotated[str, Field(min_length=1)]], AfterValidator(_attributes)] = Field(
        default=[],
        max_length=10,
        description="Attributes, such as app.customer: alerts say which of their values explains how much of a fall. "
        "They are kept of spans that come from now on, and notifications name their values",
    )
    interval: Duration = Field(default=15.0, gt=0, description="How often rules with alerts are checked")

    @model_validator(mode="before")
    @classmethod
    def _without_what_went(cls, value: object) -> object:
        return refuse_what_went(value, _WENT)
