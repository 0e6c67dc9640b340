"""Incidents in words, as lists of them and their own pages show them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracegrade.alert.notify.message import bad_results
from tracegrade.alert.notify.silences import silence_of
from tracegrade.alert.wording import budget_text, headline, span_text, value_text, watched_name
from tracegrade.display import count
from tracegrade.document.duration import duration_text
from tracegrade.model.evaluation import MEASURES
from tracegrade.rule.watched import SCORE, UNJUDGED
from tracegrade.store.alerts import Silence, StoredAlert
from tracegrade.store.diagnosis import Slice
from tracegrade.store.incidents import Incident
from tracegrade.web.charts.curves import Level, Mark, moment_text
from tracegrade.web.watched_values import WatchedValues


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the numbers at the top: its name, the number, and what it is of."""

    name: str
    text: str
    note: str
    is_bad: bool = False


def shown_value(alert: StoredAlert, value: float, is_count: bool = False) -> str:
    """A value of what `alert` watches; `is_count`: a number of results."""
    return f"{value:,.0f}" if is_count else value_text(alert.of, value)


def figures(alert: StoredAlert) -> list[Figure]:
    """The old value and the new one, or what stands for them."""
    facts, is_bad = alert.facts, alert.state == "firing"
    if alert.kind == "silent":
        return [
            Figure("Before", count(alert.samples, "result"), "in the 7 days before"),
            Figure("No results for", span_text(alert.value), f"the rule allows {span_text(alert.bound)}", is_bad),
        ]
    if facts.budget is not None:
        allowed = f"{100 * facts.budget.objective:.6g} % over {duration_text(facts.budget.window_s)}"
        return [
            Figure("Burn rate", f"{alert.value:.3g}", f"times as fast as {allowed} allows", is_bad),
            Figure("Error budget", *budget_text(facts.budget)),
        ]
    found = []
    if facts.was is not None:
        of = f"{watched_name(alert.of)} of {count(facts.was_samples, 'result')}"
        of = of if facts.was_samples else "as the rule states"
        found.append(Figure("Before", shown_value(alert, facts.was), of))
    else:
        found.append(Figure("Bound", shown_value(alert, alert.bound), f"the rule says {alert.kind}"))
    name = "Now" if is_bad else "At the end"
    low, high = shown_value(alert, facts.low), shown_value(alert, facts.high)
    of = f"{watched_name(alert.of)} of {count(alert.samples, 'result')}, between {low} and {high}"
    if alert.kind == "coverage":
        of = "of the usual number of results are left"
    found.append(Figure(name, shown_value(alert, alert.value), of, is_bad))
    if facts.fired_at is not None and facts.fired_at != alert.value:
        found.insert(1, Figure("When found", shown_value(alert, facts.fired_at), moment_text(alert.starts_ns)))
    return found


def evidence(alert: StoredAlert) -> str:
    """How sure it is, and on how many traces it was found."""
    facts, found = alert.facts, []
    if facts.traces and alert.kind != "silent":
        found.append(f"Found on {'at least ' if facts.more_traces else ''}{count(facts.traces, 'trace')}.")
    if facts.by_chance_every_s:
        seldom = span_text(facts.by_chance_every_s)
        found.append(f"Chance alone would cause this at most once in {seldom}.")
    return " ".join(found)


def outcome_of(alert: StoredAlert) -> str:
    """The outcome of the results that the alert is about; "" when it is about their size."""
    if alert.of in MEASURES:
        return ""
    if alert.kind == "coverage":
        return "not_evaluable"
    return alert.of if alert.of in UNJUDGED else "fail"


def slice_name(alert: StoredAlert) -> str:
    """What is told of each slice."""
    if alert.of in MEASURES:
        return f"Mean {alert.of}"
    return "Mean score" if alert.of.endswith(SCORE) else bad_results(alert).capitalize()


def slice_values(alert: StoredAlert, found: Slice) -> tuple[str, str]:
    """What is told of a slice, since it began and before."""
    values = (
        value if value is None or not alert.of.endswith(SCORE) else 1 - value for value in (found.bad, found.bad_before)
    )
    since, before = ("–" if value is None else shown_value(alert, value) for value in values)
    return since, before


def levels(alert: StoredAlert, found: WatchedValues) -> list[Level]:
    """What the values are compared with; numbers of results are compared with none."""
    if found.is_count:
        return []
    if alert.facts.budget is not None:
        return [Level("bound", "objective", alert.facts.budget.objective)]
    shown = []
    if alert.facts.was is not None:
        shown.append(Level("was", f"before {shown_value(alert, alert.facts.was)}", alert.facts.was))
    if alert.kind in ("below", "above"):
        shown.append(Level("bound", f"bound {shown_value(alert, alert.bound)}", alert.bound))
    return shown


def marks(alert: StoredAlert, found: WatchedValues) -> list[Mark]:
    """When it began, was found and ended."""
    shown = [
        Mark("began", f"began {moment_text(found.began_ns)}", found.began_ns),
        Mark("found", f"found {moment_text(alert.starts_ns)}", alert.starts_ns),
    ]
    if alert.ends_ns is not None:
        shown.append(Mark("ended", f"ended {moment_text(alert.ends_ns)}", alert.ends_ns))
    return shown


def said(alert: StoredAlert, found: WatchedValues) -> str:
    """The curve in words."""
    what = watched_text(alert, found)
    time = f"{what} from {moment_text(found.since_ns)} to {moment_text(found.until_ns)} UTC"
    since = [value for value in found.values if value.until_ns > found.began_ns]
    parts = [time]
    if found.usual is not None:
        low, high = (shown_value(alert, value, found.is_count) for value in found.usual)
        parts.append(f"mostly between {low} and {high} before it began at {moment_text(found.began_ns)}")
    if since:
        lowest, highest, last = (
            shown_value(alert, value, found.is_count)
            for value in (
                min(value.value for value in since),
                max(value.value for value in since),
                since[-1].value,
            )
        )
        parts.append(f"between {lowest} and {highest} since then, {last} at the end")
    else:
        parts.append("no results since it began")
    return "; ".join(parts)


def watched_text(alert: StoredAlert, found: WatchedValues) -> str:
    """What the curve shows."""
    if found.is_count:
        return f"Results in each {duration_text(found.step_minutes * 60)}"
    name = watched_name(alert.of)
    return name[0].upper() + name[1:]


# How an alert ended: the kind of its badge, and what the badge says.
_ENDS = {
    "recovered": ("good", "✓ recovered"),
    "accepted": ("good", "✓ accepted as normal"),
    "superseded": ("", "→ release replaced"),
    "changed": ("", "✎ rule changed"),
    "stale": ("", "… nothing came any more"),
    "": ("good", "✓ resolved"),
}


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An incident in words: its headline, and its state as the kind of a badge and what the badge says."""

    incident: Incident
    headline: str
    badge: tuple[str, str]
    silence: Silence | None


def shown_incidents(found: Iterable[Incident], silences: Sequence[Silence], now_ns: int) -> list[ShownIncident]:
    """The incidents as lists show them; `silences` are those in force."""
    return [
        ShownIncident(
            incident,
            headline(incident),
            badge_of(incident.clearest) if incident.state == "resolved" else badge_of(_firing(incident)),
            silence_of(incident, silences, now_ns) if incident.state == "firing" else None,
        )
        for incident in found
    ]


def badge_of(alert: StoredAlert) -> tuple[str, str]:
    """The state of an alert: the kind of its badge, and what the badge says."""
    return ("bad", "▲ firing") if alert.state == "firing" else _ENDS[alert.facts.end_reason]


def _firing(incident: Incident) -> StoredAlert:
    return next(alert for alert in incident.members if alert.state == "firing")
