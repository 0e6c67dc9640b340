from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from build.stored_alerts import ALERT, INCIDENT, incident
from tracegrade.alert.notify.labels import matches
from tracegrade.alert.notify.silences import silence_of
from tracegrade.alert.settings import AlertsSettings
from tracegrade.store.alerts import Silence

SILENCE = Silence("1", {"service": "shop"}, 100, 200, "")


def test_only_alerts_whose_labels_all_match_are_silenced() -> None:
    assert matches(ALERT, {"service": "sh*", "rule": "checkout-order"})
    assert not matches(ALERT, {"service": "sh*", "rule": "other"})
    assert [silence_of(INCIDENT, [SILENCE], now) for now in (99, 100, 199, 200)] == [None, SILENCE, SILENCE, None]
    assert silence_of(incident(replace(ALERT, service="bank")), [SILENCE], 150) is None


def test_an_alert_is_silenced_until_the_last_of_its_silences_ends() -> None:
    longer = replace(SILENCE, id="2", ends_ns=300)
    assert silence_of(INCIDENT, [SILENCE, longer], 150) == silence_of(INCIDENT, [longer, SILENCE], 150) == longer


def test_an_incident_is_silenced_while_every_alert_of_it_that_fires_is() -> None:
    other = replace(ALERT, service="bank")
    assert silence_of(incident(ALERT, other), [SILENCE], 150) is None
    assert silence_of(incident(ALERT, replace(other, state="resolved", ends_ns=120)), [SILENCE], 150) == SILENCE
    until_130 = Silence("2", {"service": "bank"}, 100, 130, "")
    assert silence_of(incident(ALERT, other), [SILENCE, until_130], 120) == until_130, "the first to end"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"maintenance": [{"start": "08:00", "end": "09:00"}]}, r"maintenance\s.*tracegrade alerts silence --for"),
        ({"group_by": ["rule"]}, r"group_by\s.*one incident, with one notification"),
    ],
)
def test_a_setting_that_went_is_refused_with_what_to_do_instead(written: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AlertsSettings.model_validate(written)
