"""What to expect of the alerts of rules, for commands that show rules."""

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tracegrade.cli.reading import ReadSettings

if TYPE_CHECKING:
    from tracegrade.alert.expected import Expected, Volume
    from tracegrade.rule.rule import Rule

_VOLUME_DAYS = 7


class _Volume(click.ParamType[float]):
    """``500/day``; becomes results a day."""

    name = "volume"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)/(day|hour)", str(value))
        if found is None or not float(found[1]):
            self.fail(f"expected results of one series such as 500/day or 20/hour, found {value!r}")
        return float(found[1]) * (24 if found[2] == "hour" else 1)


volume_option = click.option(
    "--volume", type=_Volume(), help="How many results of one series a day, such as 500/day; else from the store."
)
"""``--volume``, for a parameter ``volume``: results a day, None unless given."""


def expected_alerts(
    settings: ReadSettings, rules: "Sequence[Rule]", a_day: float | None
) -> "dict[str, list[Expected | None]]":
    """What to expect of each alert of each rule that has alerts, by rule; None where falls have no size.

    Args:
        settings: where the store is.
        rules: the rules.
        a_day: how many results of one series come a day; None: as many as the store has.
    """
    alerting = [rule for rule in rules if rule.alert]
    if not alerting:  # nothing is loaded for them
        return {}
    from tracegrade.alert.expected import expected, stated_volume

    if a_day is not None:
        return {rule.id: [expected(alert, stated_volume(a_day, alert)) for alert in rule.alert] for rule in alerting}
    volumes = _stored_volumes(settings, alerting)
    return {
        rule.id: [expected(alert, volumes.get((rule.id, place))) for place, alert in enumerate(rule.alert)]
        for rule in alerting
    }


def _stored_volumes(settings: ReadSettings, rules: "Sequence[Rule]") -> "dict[tuple[str, int], Volume]":
    """By rule and number of the alert; without those of which nothing is stored."""
    if settings.have_no_store:
        return {}
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.alert.expected import stored_volume
    from tracegrade.alert.window import window_of
    from tracegrade.model.errors import TraceGradeError
    from tracegrade.store.history import SeriesHistory
    from tracegrade.store.schema import MINUTE_NS

    now_ns = time.time_ns()
    since_ns = now_ns - _VOLUME_DAYS * 86_400 * 10**9
    found = {}
    try:
        with settings.store() as connection:
            for rule in rules:
                history = SeriesHistory(connection, {rule.hash})
                for place, alert in enumerate(rule.alert):
                    stored = history.bins(window_of(rule, alert, since_ns, now_ns)).get(rule.id, {})
                    bins = {key: list(packed) for key, packed in stored.items()}
                    if (volume := stored_volume(rule, alert, bins, now_ns // MINUTE_NS)) is not None:
                        found[rule.id, place] = volume
    except (TraceGradeError, SQLAlchemyError):  # there is none here, or not yet, or it is damaged: rules are none of it
        return {}
    return found


def alerts_to_come(settings: ReadSettings, rules: "Sequence[Rule]") -> dict[str, list[str]]:
    """How long each alert that does not fire would take if results keep coming, by rule, in words; "" if unknown."""
    if settings.have_no_store:
        return {}
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.alert.ahead import ahead
    from tracegrade.alert.check import Before
    from tracegrade.model.errors import TraceGradeError
    from tracegrade.store.alerts import open_alerts
    from tracegrade.store.history import SeriesHistory

    now_ns, found = time.time_ns(), dict[str, list[str]]()
    try:
        with settings.store() as connection:
            firing = {(fires.rule_id, fires.kind, fires.of, fires.over_s) for fires in open_alerts(connection)}
            for rule in rules:
                counted = SeriesHistory(connection, {rule.hash})
                found[rule.id] = []
                for alert in rule.alert:
                    fires = (rule.id, alert.kind, alert.of, alert.over) in firing
                    expected = None if fires else ahead(counted, rule, alert, now_ns, Before())
                    found[rule.id].append("" if expected is None else expected.sentence(alert))
    except (TraceGradeError, SQLAlchemyError):  # as in `_stored_volumes`
        return {}
    return found
