from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from build import each
from build.stored_alerts import ALERT
from tracegrade.alert.notify.routes import routed
from tracegrade.alert.settings import AlertsSettings

HOOK = {"webhook": {"url": "http://127.0.0.1/"}}
NAMES = ("pager", "chat", "mail")


def settings(*routes: dict[str, Any]) -> AlertsSettings:
    return AlertsSettings.model_validate({"channels": dict.fromkeys(NAMES, HOOK), "routes": [*routes]})


PAGER = {"labels": {"level": ["high", "critical"]}, "channels": ["pager"]}


@each(
    ("routes", "told"),
    [
        pytest.param([], NAMES, id="without routes everyone is told"),
        pytest.param([PAGER], ["pager"], id="any glob of a list"),
        pytest.param([{**PAGER, "labels": {"level": "l*"}}], NAMES, id="everyone, when no route matches"),
        pytest.param([PAGER, {"channels": ["chat"]}], ["pager"], id="the first that matches"),
        pytest.param([{"labels": {"service": "bank"}, "channels": ["mail"]}, {"channels": ["chat"]}], ["chat"]),
        pytest.param(
            [{"labels": {"rule": "check*", "service": "shop", "agent": "s*"}, "channels": ["mail"]}], ["mail"]
        ),
        pytest.param([{"labels": {"rule": "check*", "service": "bank"}, "channels": ["mail"]}], NAMES, id="all labels"),
        pytest.param([{"labels": {"release": "1.1"}, "channels": []}], [], id="nobody"),
    ],
)
def test_an_alert_goes_to_the_channels_of_its_route(routes: list[dict[str, Any]], told: list[str]) -> None:
    assert routed([ALERT], settings(*routes).routes, NAMES) == set(told)


def test_a_label_that_an_alert_has_no_value_of_is_matched_as_empty() -> None:
    routes = settings({"labels": {"release": ""}, "channels": ["mail"]}).routes
    assert routed([replace(ALERT, release=None)], routes, NAMES) == {"mail"}


def test_an_incident_goes_to_the_channels_of_each_member() -> None:
    routes = settings(PAGER, {"channels": ["chat"]}).routes
    assert routed([ALERT, replace(ALERT, level="low")], routes, NAMES) == {"pager", "chat"}


@each(
    ("route", "said"),
    [
        ({"channels": ["phone"]}, "no channel 'phone'; expected one of pager, chat, mail"),
        ({"labels": {"team": "x"}, "channels": ["mail"]}, "no label 'team'; expected one of rule, level"),
        ({"labels": {"rule": "x"}}, "channels"),
        ({"channels": ["mail"], "continue": True}, r"continue\s.*name all channels in one route"),
    ],
)
def test_a_route_to_nowhere_is_refused(route: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(route)
