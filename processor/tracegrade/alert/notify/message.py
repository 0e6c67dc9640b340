"""A notification: the headline of an incident, and its details line by line, for the channels to send."""

from datetime import UTC, datetime

from tracegrade.alert.notify.links import NO_LINKS, Links
from tracegrade.alert.wording import budget_text, headline, names_cut, share_text, span_text, summary, value_text
from tracegrade.display import count
from tracegrade.model.evaluation import MEASURES
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.rule.watched import SCORE
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.diagnosis import Reason, Slice
from tracegrade.store.incidents import Incident

_NS = 1_000_000_000
_MOST_REASONS = 3
_MOST_MEMBERS = 10


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
        of = f"of {count(facts.was_samples, 'result')}" if facts.was_samples else "as the rule states"
        found.append(f"Before: {value_text(alert.of, facts.was)} {of}")
    began = f"Since: {time_text(facts.since_ns if facts.since_ns is not None else alert.starts_ns)}"
    found.append(f"{began}, until {time_text(alert.ends_ns)}" if alert.ends_ns is not None else began)
    if facts.traces and alert.kind != "silent":  # that nothing came is seen in no trace
        least = "at least " if facts.more_traces else ""
        found.append(f"Found on {least}{count(facts.traces, 'trace')} at {time_text(alert.starts_ns)}")
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


def details(incident: Incident, links: Links = NO_LINKS) -> list[str]:
    """The details of an incident, one per line: those of its clearest alert, then the others."""
    clearest = incident.clearest
    found = [names] if (names := names_cut(incident)) else []
    found += lines(clearest, links)
    facts = clearest.facts
    found += [f"About this rule: {' '.join(facts.description.split())}"] if facts.description else []
    found += [f"See {', '.join(facts.references)}"] if facts.references else []
    found += [f"Runbook: {runbook}"] if (runbook := links.runbook(clearest.rule_id)) else []
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
    runbook = links.runbook(incident.clearest.rule_id)
    return {
        "summary": headline(incident),
        "description": "\n".join(details(incident, links)),
        "dedup_key": incident.id,
        **({"runbook_url": runbook} if runbook else {}),
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
        return f"Before: {count(alert.samples, 'result')} in 7 days"
    if facts.budget is not None:
        return f"Error budget: {', '.join(budget_text(facts.budget))}"
    interval = f"between {value_text(alert.of, facts.low)} and {value_text(alert.of, facts.high)}"
    if facts.by_chance_every_s and alert.state == "firing":
        interval += f"; chance alone would cause this at most once in {span_text(facts.by_chance_every_s)}"
    return f"Value: {value_text(alert.of, alert.value)} of {count(alert.samples, 'result')}, {interval}"


def _reason(alert: StoredAlert, reason: Reason) -> str:
    """One reason of bad results: of how many of them, and how often before."""
    before = "no results before" if reason.share_before is None else f"{share_text(reason.share_before)} before"
    counted = f"{reason.count} of {reason.of} {bad_results(alert)}; {share_text(reason.share)} of all results, {before}"
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
        before = "none came before" if found.bad_before is None else f"{share_text(found.bad_before)} before"
        rate = f"{share_text(found.bad)} {bad_results(alert)} there, {before}"
    part = f"{found.by} {found.value}, {found.share:.0%} of all results"
    return f"Where: {part}, explains {found.explains:.0%} of the {happened} ({rate})"


def bad_results(alert: StoredAlert) -> str:
    """What the results are called that the alert is about."""
    if alert.of == "error":
        return "errors"
    return "not evaluable" if alert.of == "not_evaluable" or alert.kind == "coverage" else "fails"
