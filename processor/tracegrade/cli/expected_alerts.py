"""How soon the alerts of rules are expected to fire, for commands that show rules."""

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tracegrade.cli.reading import ReadSettings

if TYPE_CHECKING:
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


VOLUME = _Volume()


def expected_alerts(settings: ReadSettings, rules: "Sequence[Rule]", a_day: float | None) -> dict[str, list[str]]:
    """A sentence for each alert of each rule, by rule: how soon it is expected to fire.

    Args:
        settings: where the store is.
        rules: the rules.
        a_day: how many results of one series come a day; None: as many as the store has.
    """
    from tracegrade.alert.expected import expectation, stated_volume

    if a_day is not None:
        return {rule.id: [expectation(alert, stated_volume(a_day, alert)) for alert in rule.alert] for rule in rules}
    return {rule.id: _expected_by_store(settings, rule) for rule in rules if rule.alert}


def _expected_by_store(settings: ReadSettings, rule: "Rule") -> list[str]:
    from tracegrade.alert.expected import expectation, stored_volume
    from tracegrade.store.history import SeriesHistory, Window
    from tracegrade.store.open import StoreError, reading_store

    now_ns = time.time_ns()
    since_ns = now_ns - _VOLUME_DAYS * 86_400 * 10**9
    try:
        with reading_store(settings.store_url) as connection:
            history = SeriesHistory(connection, {rule.hash})
            found = [
                history.bins(Window(alert.evaluation, since_ns, now_ns, rule.incomplete == "count")).get(rule.id, {})
                for alert in rule.alert
            ]
    except StoreError:  # nothing was judged here yet
        return [expectation(alert, None) for alert in rule.alert]
    return [
        expectation(alert, stored_volume(alert, bins, _VOLUME_DAYS))
        for alert, bins in zip(rule.alert, found, strict=True)
    ]
