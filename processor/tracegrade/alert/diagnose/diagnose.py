"""The diagnosis of one alert: the front door of this package."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from sqlalchemy import Connection

from tracegrade.alert.diagnose.cases import MOST_READ, Case, Sample, attributes_of, sample
from tracegrade.alert.diagnose.changes import changes_in_cases, counted_changes
from tracegrade.alert.diagnose.reasons import Shares, reasons, traces_of
from tracegrade.alert.diagnose.slices import ValuesOf, explaining, explaining_alone, most_explaining, of_cases
from tracegrade.alert.diagnose.watched import Both, Watched, watched
from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.diagnosis import Change, Diagnosis, Slice
from tracegrade.store.incidents import Incident
from tracegrade.store.results import results
from tracegrade.store.tallies import ALL_SUMS, tallies

_NS = 1_000_000_000
_MOST_COUNTED = 2000
MOST_TOLD = 20
"""Of so many alerts one check says what broke; a diagnosis takes a tenth of a second and more."""

_MODEL, _PROMPT_HASH = 4, 5  # places in a row of the view `agent_runs`


def diagnose(
    connection: Connection,
    alert: StoredAlert,
    *,
    count_incomplete: bool,
    slices: Sequence[str] = (),
    include_values: bool = False,
    until_ns: int | None = None,
) -> Diagnosis:
    """What broke.

    Args:
        connection: on the store.
        alert: one that fires; without a release, it is over all releases.
        count_incomplete: its rule counts incomplete traces.
        slices: attributes whose values are slices, too.
        include_values: whether reasons may tell values of traces.
        until_ns: results before it are looked at, ns since 1970 UTC; None: up to the alert's last look.

    Returns:
        The diagnosis, empty in all that the store does not tell.
    """
    until_ns = alert.updated_ns + 1 if until_ns is None else until_ns
    what = watched(connection, alert, count_incomplete, until_ns)
    if alert.kind == "silent":  # there is no result that could be bad
        return Diagnosis(changes=_in_order(counted_changes(connection, what)))
    counted, by_release, by_agent = _counted(connection, what)
    since = sample(connection, what, what.since, before=False)
    before = sample(connection, what, (what.before[0][0], what.before[-1][1]), before=True)
    shares = Shares(_share_bad(counted, "since") or 1.0, _share_bad(counted, "before"))
    found, examples = reasons(connection, what, since.bad, before.bad, shares, include_values)
    if what.is_of_measure:
        examples = traces_of(sorted(since.good, key=lambda case: (-case.loss, -case.number)))
    was = alert.facts.was
    assumed = 0.0 if was is None else was if what.is_of_measure else 1 - was
    named = [
        *(explaining_alone("release", by_release, counted) or explaining("release", by_release, counted, assumed)),
        *explaining("agent", by_agent, counted, assumed),
        *_of_cases(since, before, counted, assumed, _KINDS),
        *_of_attributes(connection, since.first(MOST_READ), before.first(MOST_READ), counted, assumed, slices),
    ]
    kinds = [kind for kind in _KINDS if kind[0] in ("model", "prompt")]
    changes = [
        *counted_changes(connection, what),
        *changes_in_cases(connection, what, [*before.bad, *before.good], kinds),
    ]
    found_on = alert.facts.traces, alert.facts.more_traces
    traces, more = found_on if found_on[0] else _traces(connection, what, until_ns)
    return Diagnosis(
        reasons=found,
        slices=most_explaining(named),
        changes=_in_order(changes),
        examples=examples,
        traces=traces,
        more_traces=more,
        since_ns=what.since[0],
    )


def with_diagnoses(
    connection: Connection,
    incidents: Sequence[Incident],
    fired: Collection[str],
    counting_incomplete: Collection[str],
    slices: Sequence[str],
    include_values: bool,
    *,
    anew: bool = True,
) -> list[Incident]:
    """`incidents` with what broke, among the facts of members that fire.

    Of very many at once, only `MOST_TOLD`: first those that have just begun, of these first those that lead an
    incident; then those that are told of; then those of which it was said longest ago.

    Args:
        connection: on the store.
        incidents: as they are now.
        fired: keys of the alerts that fired before.
        counting_incomplete: ids of rules that count incomplete traces.
        slices: as of `diagnose`.
        include_values: as of `diagnose`.
        anew: also of those that fired before.
    """
    wanted = [
        (
            fired_before := member.key in fired,
            member is not incident.clearest if fired_before else place,
            _as_of(member),
            member.key,
        )
        for incident in incidents
        for place, member in enumerate(incident.members)
        if member.state == "firing" and (anew or member.key not in fired)
    ]
    told = {key for *_, key in sorted(wanted)[:MOST_TOLD]}

    def with_diagnosis(alert: StoredAlert) -> StoredAlert:
        found = diagnose(
            connection,
            alert,
            count_incomplete=alert.rule_id in counting_incomplete,
            slices=slices,
            include_values=include_values,
        )
        return replace(alert, facts=_facts_with(found, alert))

    return [
        replace(each, members=[with_diagnosis(one) if one.key in told else one for one in each.members])
        if any(member.key in told for member in each.members)
        else each
        for each in incidents
    ]


def _as_of(alert: StoredAlert) -> int:
    return alert.facts.causes_as_of_ns


def _facts_with(found: Diagnosis, alert: StoredAlert) -> Facts:
    """With what broke; while nothing bad comes, what was found last stays, with its time."""
    if _as_of(alert) and alert.kind != "silent" and not (found.reasons or found.slices or found.examples):
        return alert.facts
    return replace(
        alert.facts,
        since_ns=alert.starts_ns if alert.facts.since_ns is None else alert.facts.since_ns,
        traces=found.traces,
        more_traces=found.more_traces,
        worst=found.examples,
        changed=[change.text for change in found.changes],
        reasons=found.reasons,
        slices=found.slices,
        causes_as_of_ns=alert.updated_ns,
        causes_since_ns=found.since_ns,
    )


def _in_order(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (change.time_ns, change.what, change.text))


def _counted(connection: Connection, what: Watched) -> tuple[Both, dict[str, Both], dict[str, Both]]:
    """All results that count, and by release and by agent; exactly."""
    counted, by_release, by_agent = Both(), dict[str, Both](), dict[str, Both]()
    for time, periods in (("since", [what.since]), ("before", what.before)):
        numbers = what.numbers(before=time == "before")
        which: Literal["count", "skip"] = "count" if what.count_incomplete else "skip"
        counts = tallies(connection, numbers, ["number"], periods=periods, incomplete=which, summed=ALL_SUMS)
        for (number,), tally in counts.items():
            place = what.places[number]
            groups = [counted]
            if place.release:
                groups.append(by_release.setdefault(place.release, Both()))
            if place.agent:
                groups.append(by_agent.setdefault(place.agent, Both()))
            for group in groups:
                getattr(group, time).add(what.count(tally))
    return counted, by_release, by_agent


def _share_bad(counted: Both, time: str) -> float | None:
    part = counted.since if time == "since" else counted.before
    return part.bad / part.results if part.results else None


def _models(case: Case) -> Iterable[str]:
    return [run[_MODEL] for run in case.runs if run[_MODEL]]


def _prompts(case: Case) -> Iterable[str]:
    return [run[_PROMPT_HASH] for run in case.runs if run[_PROMPT_HASH]]


def _tools(case: Case) -> Iterable[str]:
    return [call[0] for call in case.calls]


_KINDS: Sequence[tuple[str, ValuesOf]] = (("model", _models), ("prompt", _prompts), ("tool", _tools))


def _of_cases(
    since: Sample, before: Sample, counted: Both, assumed: float, kinds: Iterable[tuple[str, ValuesOf]]
) -> list[Slice]:
    found: list[Slice] = []
    for by, values_of in kinds:
        parts, everything = of_cases(since, before, counted, values_of)
        found += explaining(by, parts, everything, assumed)
    return found


def _of_attributes(
    connection: Connection, since: Sample, before: Sample, counted: Both, assumed: float, names: Sequence[str]
) -> list[Slice]:
    if not names:
        return []
    cases = [*since.bad, *since.good, *before.bad, *before.good]
    values = attributes_of(connection, cases, names)
    kinds = [(name, partial(_value, values, name)) for name in names]
    return _of_cases(since, before, counted, assumed, kinds)


def _value(values: Mapping[tuple[int, str], Mapping[str, str]], name: str, case: Case) -> Iterable[str]:
    value = values.get((case.number, case.subject), {}).get(name)
    return () if value is None else (value,)


def _traces(connection: Connection, what: Watched, until_ns: int) -> tuple[int, bool]:
    """The number of traces with results in the window of the alert, and whether there are more."""
    alert = what.alert
    window = replace(
        what.result_filter,
        evaluation=None if what.is_of_measure else what.evaluation or None,
        since_ns=alert.starts_ns - int(alert.over_s * _NS),
        until_ns=until_ns,
    )
    release = what.alert.release
    latest = results(connection, window, _MOST_COUNTED)
    of_release = {result.trace_id for result in latest if release is None or (result.release or "") == release}
    return len(of_release), len(latest) == _MOST_COUNTED
