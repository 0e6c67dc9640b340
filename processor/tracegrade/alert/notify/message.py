"""An incident in words: what fell, from which value to which, since when, from how many results, and where to look."""

from datetime import UTC, datetime
from math import floor, log10

from tracegrade.alert.notify.links import NO_LINKS, Links
from tracegrade.document.duration import duration_text
from tracegrade.model.evaluation import MEASURES
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.rule.watched import PASS_RATE, SCORE
from tracegrade.store.alerts import ErrorBudget, StoredAlert
from tracegrade.store.diagnosis import Reason, Slice
from tracegrade.store.incidents import Incident

_NS = 1_000_000_000
_MINUTE_S = 60
_DAY_S = 86_400
_YEAR_DAYS = 365
_MANY_YEARS = 1_000_000
_MOST_REASONS = 3
_MOST_MEMBERS = 10


def summary(alert: StoredAlert) -> str:
    """The alert in one sentence: rule, place, what happened."""
    place = alert.service or "unnamed service"
    if alert.agent:
        place += f", agent {alert.agent}"
    if alert.release is not None:
        place += f", release {alert.release}" if alert.release else ", results without a release"
    return f"{alert.rule_id} at {place}: {_what(alert)}"


def lines(alert: StoredAlert, links: Links = NO_LINKS) -> list[str]:
    """The details of an alert, one per line; traces as addresses where `links` has them."""
    facts = alert.facts
    found = [alert.title] if alert.title else []
    if alert.tenant != DEFAULT_TENANT:  # who is notified of several tenants' alerts has to know whose this is
        found.append(f"Tenant: {alert.tenant}")
    if alert.state == "resolved" and facts.ended_by:
        found.append(f"Ended because {facts.ended_by}.")
    found.append(_value(alert))
    if facts.was is not None:
        of = f"of {facts.was_samples} results" if facts.was_samples else "as stated"
        found.append(f"Before: {value_text(alert.of, facts.was)} {of}")
    began = f"Since: {time_text(facts.since_ns if facts.since_ns is not None else alert.starts_ns)}"
    found.append(f"{began}, until {time_text(alert.ends_ns)}" if alert.ends_ns is not None else began)
    if facts.traces and alert.kind != "silent":  # that nothing came is seen in no trace
        least = "at least " if facts.more_traces else ""
        found.append(
            f"Found on {least}{facts.traces:,} {'trace' if facts.traces == 1 else 'traces'}"
            f" at {time_text(alert.starts_ns)}"
        )
    causes = [_reason(alert, reason) for reason in facts.reasons[:_MOST_REASONS]]
    causes += [_slice(alert, found_in) for found_in in facts.slices]
    if facts.changed:
        causes.append(f"Changed near that time or since: {'; '.join(facts.changed)}")
    if facts.worst and alert.kind != "silent":
        causes.append(f"Traces to look at: {', '.join(map(links.trace, facts.worst))}")
    return [*found, f"{causes_time(alert)}:", *causes] if causes else found


def causes_time(alert: StoredAlert) -> str:
    """When the causes of an alert were computed, and from which results."""
    facts = alert.facts
    as_of = f"Causes as of {time_text(facts.causes_as_of_ns or alert.starts_ns)}"
    if not facts.causes_since_ns or alert.kind == "silent":
        return as_of
    return f"{as_of}, from the results since {time_text(facts.causes_since_ns)}"


def headline(incident: Incident) -> str:
    """The incident in one sentence: what its clearest alert says, and how many more there are."""
    others = len(incident.members) - 1
    more = f" (and {others} more {'alert' if others == 1 else 'alerts'})" if others else ""
    return summary(incident.clearest) + more


def details(incident: Incident, links: Links = NO_LINKS) -> list[str]:
    """The details of an incident, one per line: those of its clearest alert, then the others."""
    clearest = incident.clearest
    found = lines(clearest, links)
    facts = clearest.facts
    found += [f"About this rule: {' '.join(facts.description.split())}"] if facts.description else []
    found += [f"See {', '.join(facts.references)}"] if facts.references else []
    others = [member for member in incident.members if member is not clearest]
    found += [f"Also {alert.state}: {summary(alert)}" for alert in others[:_MOST_MEMBERS]]
    if (more := len(others) - _MOST_MEMBERS) > 0:
        found.append(f"And {more:,} more alerts.")
    return found


def subject(incident: Incident) -> str:
    """The subject line of a notification."""
    return f"[{incident.state}] {headline(incident)}"


def text(incident: Incident, links: Links) -> str:
    """An incident as plain text."""
    found = [f"{incident.state.upper()} ({incident.level}): {headline(incident)}", *details(incident, links)]
    page = links.incident(incident.id)
    return "\n".join([*found, "", page] if page else found) + "\n"


def annotations(incident: Incident, links: Links) -> dict[str, str]:
    """The annotations of an incident, for channels that take labels and annotations."""
    return {
        "summary": headline(incident),
        "description": "\n".join(details(incident, links)),
        "dedup_key": incident.id,
    }


def rfc3339(time_ns: int) -> str:
    """A time as Alertmanager and PagerDuty write it."""
    return datetime.fromtimestamp(time_ns // _NS, UTC).isoformat().replace("+00:00", "Z")


def time_text(time_ns: int) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(time_ns // _NS, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _value(alert: StoredAlert) -> str:
    facts = alert.facts
    if alert.kind == "silent":
        return f"Before: {alert.samples:,} results in 7d"
    if facts.budget is not None:
        return budget_text(facts.budget)
    interval = f"between {value_text(alert.of, facts.low)} and {value_text(alert.of, facts.high)}"
    if facts.by_chance_every_s and alert.state == "firing":
        interval += f"; by chance at most once in {long_time_text(facts.by_chance_every_s)}"
    return f"Value: {value_text(alert.of, alert.value)} of {alert.samples} results, {interval}"


def _what(alert: StoredAlert) -> str:
    if alert.kind == "silent":
        return _silence(alert)
    if alert.facts.budget is not None:
        return _burn(alert, alert.facts.budget)
    # A fall or a rise: since it began, or was over.
    within = "" if alert.kind in ("drop", "rise") else f" in {duration_text(alert.over_s)}"
    over = f"({_results(alert)}{within})"
    named, value = watched_name(alert.of), value_text(alert.of, alert.value)
    if alert.state == "resolved" and alert.facts.ended_by:  # it is not known whether the value recovered
        return f"{named} was {value} {over} when {alert.facts.ended_by}"
    if alert.state == "resolved":
        before = "" if alert.facts.fired_at is None else f"from {value_text(alert.of, alert.facts.fired_at)} "
        named = "coverage" if alert.kind == "coverage" else named
        return f"{named} recovered {before}to {value} ({_results(alert)})"
    if alert.kind in ("drop", "rise"):
        was = value_text(alert.of, alert.facts.was) if alert.facts.was is not None else "its baseline"
        return f"{named} {'fell' if alert.kind == 'drop' else 'rose'} from {was} to {value} {over}"
    if alert.kind == "coverage":
        return f"results stopped arriving: {value} of the usual number are left {over}"
    return f"{named} {value} is {alert.kind} {value_text(alert.of, alert.bound)} {over}"


def watched_name(of: str) -> str:
    """What is watched, in words."""
    named = {"pass_rate": "pass rate", "not_evaluable": "share not evaluable", "error": "share of errors"}.get(of)
    if named is not None:
        return named
    if of in MEASURES:
        return f"mean {of}"
    name, score, _ = of.partition(SCORE)
    return f"mean score of {name}" if score else f"pass rate of {of}"


def value_text(of: str, value: float) -> str:
    """A value of what is watched: "74.4%", "25,300" tokens, a cost of "0.42", a duration of "12.4s" or "3m 20s"."""
    if of not in MEASURES:
        return f"{value:.1%}"
    if of == "duration" and value >= _MINUTE_S:
        minutes, seconds = divmod(round(value), _MINUTE_S)
        return f"{minutes}m {seconds}s" if minutes < _MINUTE_S else length_text(value)
    digits = 0 if value >= 1000 else max(0, 2 - floor(log10(value))) if value > 0 else 0
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}s" if of == "duration" else text


def _silence(alert: StoredAlert) -> str:
    silence = length_text(alert.value)
    if alert.state == "firing":
        return f"no results for {silence}"
    if alert.facts.ended_by:
        return f"no results for {silence}, ended because {alert.facts.ended_by}"
    return f"results came again after {silence}"


def _burn(alert: StoredAlert, budget: ErrorBudget) -> str:
    of = "" if alert.of == PASS_RATE else f" of {alert.of}"
    allowed = f"{100 * budget.objective:.6g}% over {duration_text(budget.window_s)} allows"
    rate = f"{alert.value:.3g} times as fast as {allowed}"
    over = f"{alert.samples:,} results in {length_text(budget.over_s)}"
    if alert.state == "firing":
        return f"the error budget{of} is spent {rate} ({over})"
    if alert.facts.ended_by:
        return f"the error budget{of} was spent {rate} ({over}) when {alert.facts.ended_by}"
    before = "" if alert.facts.fired_at is None else f"; {alert.facts.fired_at:.3g} times when it fired"
    return f"the error budget{of} recovered: it is spent {rate} ({over}{before})"


def budget_text(budget: ErrorBudget) -> str:
    """What is left of an error budget, and for how long."""
    if budget.left is None:
        return "Error budget: nothing was judged"
    if budget.left <= 0:
        return f"Error budget: overspent by {-budget.left:.1%} of it"
    lasts = f"spent in {length_text(budget.spent_in_s)}" if budget.spent_in_s is not None else "not spent"
    return f"Error budget: {budget.left:.1%} left, {lasts} at this rate"


def length_text(seconds: float) -> str:
    """A length of time to the minute, in its two largest units: "3h 25m"."""
    minutes = round(seconds / 60)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"))
    return " ".join([f"{number}{unit}" for number, unit in parts if number][:2]) or "0m"


def _reason(alert: StoredAlert, reason: Reason) -> str:
    """One reason of bad results: of how many of them, and how often before."""
    before = "no results before" if reason.share_before is None else f"{reason.share_before:.1%} before"
    counted = f"{reason.count} of {reason.of} {bad_results(alert)}; {reason.share:.1%} of all results, {before}"
    example = f", such as {reason.example}" if reason.example else ""
    return f"Reason: {reason.evaluation}: {reason.text.removesuffix('.')}{example} ({counted})"


def _slice(alert: StoredAlert, found: Slice) -> str:
    """One slice of the results, and how much of what happened it explains."""
    happened = "rise" if alert.kind in ("above", "rise") else "fall"
    if alert.of in MEASURES:
        before = "" if found.bad_before is None else f", {value_text(alert.of, found.bad_before)} before"
        rate = f"{value_text(alert.of, found.bad)} there on average{before}"
    elif alert.of.endswith(SCORE):
        before = "" if found.bad_before is None else f", {1 - found.bad_before:.3g} before"
        rate = f"mean score {1 - found.bad:.3g} there{before}"
    else:
        before = "none came before" if found.bad_before is None else f"{found.bad_before:.1%} before"
        rate = f"{found.bad:.1%} {bad_results(alert)} there, {before}"
    part = f"{found.by} {found.value}, {found.share:.0%} of all results"
    return f"Where: {part}, explains {found.explains:.0%} of the {happened} ({rate})"


def bad_results(alert: StoredAlert) -> str:
    """What the results are called that the alert is about."""
    if alert.of == "error":
        return "errors"
    return "not evaluable" if alert.of == "not_evaluable" or alert.kind == "coverage" else "fails"


def _results(alert: StoredAlert) -> str:
    return f"{alert.samples:,} {'result' if alert.samples == 1 else 'results'}"


def long_time_text(seconds: float) -> str:
    """A time as people read it: "90 days", "1,200 years"."""
    days = seconds / _DAY_S
    if days < 2 * _YEAR_DAYS:
        return f"{days:,.0f} days"
    years = days / _YEAR_DAYS
    return f"{years:,.0f} years" if years < _MANY_YEARS else f"more than {_MANY_YEARS:,} years"
