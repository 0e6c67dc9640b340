import pytest
from pydantic import ValidationError

from build import each
from tracegrade.alert.settings import AlertsSettings


@each(
    ("settings", "trace"),
    [
        ({}, "ab"),
        ({"external_url": "https://tg.example/"}, "https://tg.example/traces/ab"),
        ({"trace_url": "https://jaeger.example/trace/{trace_id}?x=1"}, "https://jaeger.example/trace/ab?x=1"),
        (
            {"external_url": "https://tg.example", "trace_url": "https://tempo.example/{trace_id}"},
            "https://tempo.example/ab",
        ),
    ],
)
def test_traces_are_where_the_settings_say(settings: dict[str, str], trace: str) -> None:
    assert AlertsSettings.model_validate(settings).links.trace("ab") == trace


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trace_url": "https://jaeger.example/trace/"}, r"expected {trace_id} in it"),
        ({"trace_url": "jaeger.example/{trace_id}"}, "expected http"),
        ({"external_url": "tg.example"}, "expected http"),
    ],
)
def test_an_address_that_cannot_be_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AlertsSettings.model_validate(settings)
