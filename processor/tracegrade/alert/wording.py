"""Alerts in words: headlines, why an alert ended, why one did not fire, how soon it would, values and times.

A number is rounded, but never to a false statement: 98.96% is not "99%" beside an objective of 99%, and 99.97% is not
"100%". A headline has at most 140 characters: names are cut, numbers never.
"""

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import TYPE_CHECKING

from tracegrade.display import count
from tracegrade.document.duration import duration_text
from tracegrade.model.evaluation import MEASURES
from tracegrade.rule.watched import PASS_RATE, SCORE
from tracegrade.store.alerts import ErrorBudget, StoredAlert, WaitingReason
from tracegrade.store.incidents import Incident

# Lists of incidents need no rules, which take as long to import as all else.
if TYPE_CHECKING:
    from tracegrade.alert.outlook import Expectation, NotFired, TimeToFire
    from tracegrade.rule.alert import Alert

LONGEST_HEADLINE = 140
LEVEL_ACCEPTED = "its level was accepted as normal"
RULE_REMOVED = "the rule was removed"
RULE_CHANGED = "the rule was changed"
ALERT_CHANGED = "the alert was changed or removed"

_NAME_LENGTHS = (60, 40, 32, 24, 20, 16, 12, 8, 6, 4, 3)
_ONE_PLACE, _NO_PLACE = _NAME_LENGTHS[-2:]
_LONGEST_END = 44
_MOST_DIGITS = 12
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 365 * 86_400
_MANY_YEARS = 1_000_000


def headline(incident: Incident) -> str:
    """The incident in one sentence: what its clearest alert says, and how many more there are."""
    others = len(incident.members) - 1
    return _cut_to_fit(incident.clearest, f" (+{count(others, 'alert')})" if others else "")


def summary(alert: StoredAlert) -> str:
    """The alert in one sentence: rule, place, what happened."""
    return _cut_to_fit(alert)


def names_cut(incident: Incident) -> str:
    """The headline's names in full, where it cuts one of them; else ""."""
    alert = incident.clearest
    names = {"rule": alert.rule_id, "service": alert.service, "agent": alert.agent, "release": alert.release or ""}
    said = headline(incident)
    if all(name in said for name in names.values()):
        return ""
    return ", ".join(f"{what} {name}" for what, name in names.items() if name)


def replaced_by(release: str, replaced: str | None) -> str:
    """Why an alert ended whose release was replaced; `replaced` is None where the alert is about that one."""
    return f"{f'release {release}' if release else 'results without a release'} replaced {replaced or 'it'}"


def nothing_came(seconds: float) -> str:
    """Why an alert ended whose results stopped."""
    return f"no results came for {span_text(seconds)}"


def by_chance(evidence: float, false_alarm_every_s: float) -> str:
    """Evidence that was too weak for an alert to fire, as how often chance alone would produce it.

    Args:
        evidence: at 1, chance alone shows it once in `false_alarm_every_s`.
        false_alarm_every_s: of the alert, in seconds.
    """
    every_s = evidence * false_alarm_every_s
    if every_s <= 0:
        return "nothing pointed to a change for the worse"
    often = f"every {span_text(every_s)}" if every_s >= _MINUTE_S else "more than once a minute"
    seldom = f"once in {span_text(false_alarm_every_s)} (false_alarm_every)"
    return f"chance alone would produce this {often}; to fire, it must be as rare as {seldom}"


def waiting_text(reason: WaitingReason) -> str:
    """Why nothing can be told yet about an alert at one agent."""
    return "no baseline yet" if reason == "no_baseline" else "too few results yet"


def not_fired_text(found: "NotFired", results: int) -> str:
    """Why an alert did not fire on so many `results`."""
    checked, least = f"{count(results, 'result')} checked", found.alert.min_samples
    if found.alert.is_of_values and not results:
        return f"{checked}: {found.alert.of} is measured only once the rule in force has such an alert."
    if found.alert.is_counted:
        return f"{checked}; the condition never held."
    if found.too_late:
        named = ", ".join(f"release {key.release}" for key in found.too_late if key.release) or "the release to blame"
        return f"{checked}; {named} was replaced before the evidence was strong enough."
    if found.evidence is not None:
        # One of many series needs as much more: each could look bad by chance.
        return f"{checked}: {by_chance(found.evidence / max(1, found.needed), found.alert.false_alarm_every)}."
    if found.too_few:
        return f"{checked}: too few; one agent needs {least} (min_samples)."
    if found.without_baseline:
        return f"{checked}; no baseline yet: fewer than {least} results (min_samples) came before them."
    return f"{checked}; no check came after them: the current minute is not checked."


def time_to_fire_text(alert: "Alert", found: "TimeToFire") -> str:
    """How soon an alert that does not fire would; "" where that is not known."""
    if not found.an_hour or found.share is None:
        return ""
    rate = (
        f"At the rate of the last hour with results ({count(found.an_hour, 'result')}) and the "
        f"{watched_name(alert.of)} of the last {duration_text(alert.over)} ({value_text(alert.of, found.share)})"
    )
    if found.minutes is None:
        return f"{rate} it would not fire within 7 days of results."
    hours = found.minutes // 60
    in_time = f"{found.minutes} minutes" if hours < 2 else f"{hours} hours" if hours < 48 else f"{hours // 24} days"
    return f"{rate} it would fire after about {in_time} more, counting hours with results only."


def expectation_text(found: "Expectation") -> str:
    """How soon an alert is expected to fire, and how often it may be wrong."""
    from tracegrade.alert.detect.usual import Usual  # loads rules, as above

    if found.false_alarms_a_month is None:
        return f"Where nothing failed before, {_fires([(f'{100 * size:.3g}% fail', m) for size, m in found.found])}."
    most = f"{found.false_alarms_a_month:.2g}"
    wrong = f"at most {most} false {'alarm' if most == '1' else 'alarms'} a month"
    if found.volume is None:
        return f"How soon it fires is unknown, without stored results or --volume; {wrong}."
    fires = _fires([(_change(found.alert, size), minutes) for size, minutes in found.found])
    usual = found.volume.usual
    passing = f", of which {usual.share:.0%} pass" if found.alert.drop is not None and isinstance(usual, Usual) else ""
    return f"At {found.volume.a_day:,.0f} results a day of one agent{passing}, {fires}; {wrong}."


def _change(alert: "Alert", size: float) -> str:
    if alert.is_of_values:
        part = f"{100 * size:.3g}%"
        return f"the mean rises by {part}" if alert.rise is not None else f"the mean is {part} above the bound"
    named, points = f"the {watched_name(alert.of)}", f"{100 * size:.2g} points"
    return f"{named} falls by {points}" if alert.drop is not None else f"{named} is {points} past the bound"


def _fires(found: Sequence[tuple[str, int | None]]) -> str:
    """After how long an alert fires for each change, and for which changes it does not fire in time."""
    fires = " and ".join(f"{_after(minutes)} when {change}" for change, minutes in found if minutes is not None)
    not_found = " or ".join(change for change, minutes in found if minutes is None)
    if not not_found:
        return f"it fires {fires}"
    return (
        f"it fires {fires}, but not in time when {not_found}" if fires else f"it does not fire in time when {not_found}"
    )


def _after(minutes: int) -> str:
    if minutes < 3 * 60:
        return f"after about {minutes} minutes"
    if minutes < 3 * 1440:
        return f"after about {minutes / 60:.0f} hours"
    return f"after about {minutes / 1440:.1f} days"


def watched_name(of: str) -> str:
    """The name of what is watched."""
    named = {"pass_rate": "pass rate", "not_evaluable": "share not evaluable", "error": "share of errors"}.get(of)
    if named is not None:
        return named
    if of in MEASURES:
        return f"mean {of}"
    name, score, _ = of.partition(SCORE)
    return f"mean score of {name}" if score else f"pass rate of {of}"


def _length(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes}m {rest}s" if minutes < _MINUTE_S else length_text(seconds)


def value_text(of: str, value: float, beside: float | None = None) -> str:
    """A value of what is watched: "74.4%", "25,300" tokens, a cost of "0.42", a duration of "12.4s" or "3m 20s".

    Next to the value `beside`, in as many digits as show that the two differ.
    """
    if of not in MEASURES:
        return share_text(value, beside)
    if of == "duration" and value >= _MINUTE_S:
        text = _length(value)
        return text if beside is None or value == beside or text != _length(beside) else f"{value:,.6g}s"
    digits = 0 if value >= 1000 else max(0, 2 - floor(log10(value))) if value > 0 else 0
    text = _rounded(value, digits, beside)
    return f"{text}s" if of == "duration" else text


def share_text(share: float, beside: float | None = None) -> str:
    """A share in percent, to one decimal place; see `value_text`. Only 1 is "100%", and only 0 is "0%"."""
    digits = 1
    while digits < _MOST_DIGITS and round(100 * share, digits) in (0, 100) and share not in (0, 1):
        digits += 1
    return f"{_rounded(100 * share, digits, None if beside is None else 100 * beside)}%"


def length_text(seconds: float) -> str:
    """A length of time for tables, to the minute, in its two largest units: "3h 25m"."""
    minutes = round(seconds / _MINUTE_S)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"))
    return " ".join([f"{number}{unit}" for number, unit in parts if number][:2]) or "0m"


def span_text(seconds: float) -> str:
    """A length of time in a sentence: "12 minutes", "17 hours", "2 hours 10 minutes", "90 days", "1,200 years"."""
    if seconds < _MINUTE_S:
        return count(max(1, round(seconds)), "second")
    if seconds >= 2 * _YEAR_S:
        years = seconds / _YEAR_S
        return f"{years:,.0f} years" if years < _MANY_YEARS else f"more than {_MANY_YEARS:,} years"
    minutes = round(seconds / _MINUTE_S)
    for unit, size, part, part_size in (("day", 1440, "hour", 60), ("hour", 60, "minute", 1)):
        whole, rest = divmod(round(minutes / part_size) * part_size, size)
        if whole >= 10 or (whole and not rest):
            return count(round(minutes / size), unit)
        if whole and minutes >= 2 * size:
            return f"{count(whole, unit)} {count(rest // part_size, part)}"
    return count(minutes, "minute")


def budget_text(budget: ErrorBudget) -> tuple[str, str]:
    """What is left of an error budget, and for how long."""
    if budget.left is None:
        return "unknown", "nothing was judged"
    if budget.left <= 0:
        spent = _rounded(1 - budget.left, 1, 1.0)
        times = "the whole budget" if spent == "1" else f"{spent} times the budget"
        return "used up", f"{times} was spent in {span_text(budget.window_s)}"
    if budget.spent_in_s is None:
        return f"{share_text(budget.left)} left", "it lasts at this rate"
    return f"{share_text(budget.left)} left", f"used up in {span_text(budget.spent_in_s)} at this rate"


def _rounded(value: float, digits: int, beside: float | None) -> str:
    """A number with so many decimal places, or as many as tell it from `beside`; without zeros at the end."""
    while beside is not None and digits < _MOST_DIGITS and value != beside:
        if round(value, digits) != round(beside, digits):
            break
        digits += 1
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cut_to_fit(alert: StoredAlert, end: str = "") -> str:
    """The sentence of `alert`, and `end`; names are cut to the first of `_NAME_LENGTHS` at which it fits."""
    fitting = (said for length in _NAME_LENGTHS if len(said := _sentence(alert, length) + end) <= LONGEST_HEADLINE)
    return next(fitting, _sentence(alert, _NAME_LENGTHS[-1]) + end)


def _sentence(alert: StoredAlert, longest_name: int) -> str:
    def name(text: str) -> str:
        return text if len(text) <= longest_name else f"{text[: longest_name - 1]}…"

    service, rule = name(alert.service) or "unnamed service", name(alert.rule_id)
    if alert.kind == "silent":
        who = f"Agent {name(alert.agent)} at {service}" if alert.agent else service
        return f"{who} {_silence(alert)} (rule {rule})"
    places = [service, f"agent {name(alert.agent)}"] if alert.agent else [service]
    if alert.release is not None:
        places.append(f"release {name(alert.release)}" if alert.release else "results without a release")
    if longest_name == _NO_PLACE:
        return f"{rule}: {_happened(alert, name)}"
    if longest_name == _ONE_PLACE:
        places = places[-1:]
    return f"{rule} at {', '.join(places)}: {_happened(alert, name)}"


def _happened(alert: StoredAlert, name: Callable[[str], str]) -> str:
    facts = alert.facts
    if facts.budget is not None:
        return _burn(alert, facts.budget, name)
    of = alert.of if alert.of in (PASS_RATE, "not_evaluable", "error", *MEASURES) else _name_of(alert.of, name)
    named, value = watched_name(of), value_text(alert.of, alert.value)
    # A fall or a rise: since it began, or was over.
    within = "" if alert.kind in ("drop", "rise") else f" in {span_text(alert.over_s)}"
    results = count(alert.samples, "result")
    over = f"({results}{within})"
    if alert.state == "resolved" and facts.ended_by:  # it is not known whether the value recovered
        was = "coverage" if alert.kind == "coverage" else named
        return f"{was} was {value} {over} when {facts.ended_by[:_LONGEST_END]}"
    if alert.state == "resolved":
        before = "" if facts.fired_at is None else f"from {value_text(alert.of, facts.fired_at, alert.value)} "
        named = "coverage" if alert.kind == "coverage" else named
        value = value_text(alert.of, alert.value, facts.fired_at)
        return f"{named} recovered {before}to {value} ({results})"
    if alert.kind in ("drop", "rise"):
        was = value_text(alert.of, facts.was, alert.value) if facts.was is not None else "its baseline"
        value = value_text(alert.of, alert.value, facts.was)
        return f"{named} {'fell' if alert.kind == 'drop' else 'rose'} from {was} to {value} {over}"
    if alert.kind == "coverage":
        return f"only {value} of the usual results arrive {over}"
    bound = value_text(alert.of, alert.bound, alert.value)
    return f"{named} {value_text(alert.of, alert.value, alert.bound)} is {alert.kind} {bound} {over}"


def _name_of(of: str, name: Callable[[str], str]) -> str:
    evaluation, score, _ = of.partition(SCORE)
    return f"{name(evaluation)}{score}"


def _silence(alert: StoredAlert) -> str:
    silence = span_text(alert.value)
    if alert.state == "firing":
        return f"has sent no results for {silence}"
    if alert.facts.end_reason == "stale":
        return f"has sent no results for {silence} and is no longer watched"
    if alert.facts.ended_by:
        return f"had sent no results for {silence} when {alert.facts.ended_by[:_LONGEST_END]}"
    return f"sends results again, after {silence} without any"


def _burn(alert: StoredAlert, budget: ErrorBudget, name: Callable[[str], str]) -> str:
    of = "" if alert.of == PASS_RATE else f" of {name(alert.of)}"
    which = f"error budget{of} ({100 * budget.objective:.6g}% over {span_text(budget.window_s)})"
    rate = "as fast as allowed" if alert.value == 1 else f"{_rounded(alert.value, 1, 1.0)} times as fast as allowed"
    if alert.state == "firing":
        return f"{which} spent {rate}: {_failed(alert, budget)} in {span_text(budget.over_s)}"
    if alert.facts.ended_by:
        return f"{which} was spent {rate} when {alert.facts.ended_by[:_LONGEST_END]}"
    before = "" if alert.facts.fired_at is None else f", from {_rounded(alert.facts.fired_at, 1, 1.0)}"
    return f"{which}: spending {f'slowed to {rate}' if alert.value else 'stopped'}{before}"


def _failed(alert: StoredAlert, budget: ErrorBudget) -> str:
    if budget.failed is not None:
        return f"{budget.failed:,} of {alert.samples:,} failed"
    return f"{share_text(min(1.0, alert.value * (1 - budget.objective)), 1 - budget.objective)} failed"
