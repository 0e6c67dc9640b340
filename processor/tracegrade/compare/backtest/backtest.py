"""Judges stored traces by changed rules, and says what that changes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from sqlalchemy import Connection, select

from tracegrade.alert.preview import Preview
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result
from tracegrade.compare.backtest.alerts import EVERY_NS, CountedMinutes
from tracegrade.compare.backtest.changes import Changes, Example, RuleChange, explain_before
from tracegrade.compare.backtest.judged import OtherRules, RuleResult, RuleResultsOfTrace, Showing, explanation_of
from tracegrade.compare.backtest.sources import Chosen, Rules, State, chosen_rules, judged_alike, judged_alike_live
from tracegrade.compare.progress import Progress, unseen
from tracegrade.compare.rejudging.sessions import RejudgeSessions
from tracegrade.compare.rejudging.traces import NotJudged, ReadFilter, RejudgeTraces, Rejudging, not_judged_notes
from tracegrade.compare.store.backfills import JudgedAfter, StoredBackfill
from tracegrade.compare.store.rejudging import KeptSession
from tracegrade.display import count, time_text
from tracegrade.model.errors import CannotTell
from tracegrade.model.field_schema import json_of
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.index import first_arrival
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rule_texts import judgements, rules_of
from tracegrade.store.schema import BACKFILL, DECISION_KINDS, LIVE, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE, series, traces


class LiveResults:
    """What the rules of these ids said of traces live, in whichever form they had then."""

    def __init__(self, connection: Connection, rule_ids: Collection[str]) -> None:
        """Look up the series of these rules."""
        self._connection = connection
        chosen = (series.c.run == LIVE, series.c.evaluation == WHOLE_RULE, series.c.rule_id.in_(rule_ids))
        self._series: Mapping[int, Any] = {row.number: row for row in connection.execute(select(series).where(*chosen))}

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of the forms that these rules had, each with the id of its rule."""
        return {row.rule_hash: row.rule_id for row in self._series.values()}

    def results_of(self, decisions: str) -> Iterator[RuleResult]:
        """What was said of one trace; `decisions` are its rows of that view, as JSON."""
        for number, kind, subject, decided, outcome, *_ in orjson.loads(decisions):
            if (found := self._series.get(number)) is not None:
                word = DECISION_KINDS[decided] if outcome is None else OUTCOMES[outcome]
                place = (found.agent, found.service, found.release)
                yield RuleResult(found.rule_id, kind, subject, *place, word, found.probability)

    def explanation(self, change: RuleChange, example: Example) -> str:
        """Why the subject of an example failed or could not be judged; "" when that cannot be read."""
        query = select(traces.c.judged).where(traces.c.number == example.number)
        packed = self._connection.execute(query).scalar()
        try:
            decisions = [] if packed is None else unpack_result(packed, b"").decisions
        except Unreadable:  # damaged, or of another version
            return ""
        own = (change.rule.id, SUBJECT_KINDS[example.kind], example.subject)
        found = (item for item in decisions if (item.pair.rule_id, item.pair.subject.kind, item.pair.subject.id) == own)
        return next(map(explanation_of, found), "")


Keep: TypeAlias = Callable[[JudgedAfter], None]
"""Keeps what the changed rules said of a trace, to store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a backtest.

    ``rules`` are the changed ones, ``other`` those of the other side, None: what was judged live. ``named``: ids of
    rules that are judged by even if they did not change, and then no others. Traces: those first received from
    ``since_ns`` on, before ``until_ns`` (since 1970 UTC), with that service, agent, release and tenant where given.
    ``data_path``: the folder whose journal may hold what the store did not keep. ``jobs``: how many processes judge.
    """

    rules: Rules
    other: Rules | None
    named: Collection[str] = ()
    since_ns: int
    until_ns: int
    service: str | None = None
    agent: str | None = None
    release: str | None = None
    tenant: str | None = None
    settings: TracesSettings
    reading: RuleReading = FILES_ALONE
    data_path: Path
    jobs: int = 1

    @property
    def result_filter(self) -> ResultFilter:
        """Which stored traces to read; agent and release are told when they are judged."""
        return ResultFilter(
            since_ns=self.since_ns, until_ns=self.until_ns, service=self.service, tenant=self.tenant, run=LIVE
        )


@dataclass(slots=True)
class Backtest:
    """What a backtest found.

    ``against`` names the other side. ``traces``: how many were judged; ``not_judged``: how many were left out, since
    what a rule reads was not kept of them; of sessions likewise. ``sessions_not_stored``: how many were to be stored
    and have no row. ``states``: by id, what became of the rules
    that were judged by. ``left_alone``: by id, why rules
    were not judged by. ``gone``: the rules that only the other side
    has. ``alerts``: when alerts would have fired, None when no rule has any. ``stored``: how much was stored, None when
    that was not asked for.
    """

    against: str
    since_ns: int
    until_ns: int
    traces: int = 0
    not_judged: NotJudged = field(default_factory=NotJudged)
    sessions: int = 0
    sessions_not_judged: NotJudged = field(default_factory=NotJudged)
    sessions_not_stored: int = 0
    changes: Sequence[RuleChange] = ()
    paths: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    left_alone: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()
    alerts: Preview | None = None
    notes: Sequence[str] = ()
    stored: StoredBackfill | None = None

    @property
    def judged(self) -> str:
        """How much was judged, for people: ``160 stored traces and 12 stored sessions``."""
        scopes = {change.rule.scope for change in self.changes}
        found = []
        if self.traces or scopes - {"session"}:
            found.append(count(self.traces, "stored trace"))
        if self.sessions or "session" in scopes:
            found.append(count(self.sessions, "stored session"))
        return " and ".join(found)

    def left_out_notes(self) -> Iterator[str]:
        """What people have to know about what was not judged, or not stored."""
        yield from not_judged_notes(self.not_judged)
        yield from not_judged_notes(self.sessions_not_judged, "session")
        if self.sessions_not_stored:
            yield f"{count(self.sessions_not_stored, 'session')} not stored: no rule judged them when they came"

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        fired = [] if self.alerts is None else self.alerts.fired
        return {
            "against": self.against,
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
            "traces": self.traces,
            **_not_judged_json(self.not_judged),
            "sessions": {"judged": self.sessions, **_not_judged_json(self.sessions_not_judged)},
            "rules": [
                {
                    **_change_json(change),
                    "state": self.states[change.rule.id],
                    "path": self.paths.get(change.rule.id),
                    "alerts": [alert.to_json() for alert in fired if alert.rule_id == change.rule.id],
                }
                for change in self.changes
            ],
            "left_alone": dict(self.left_alone),
            "gone": list(self.gone),
            "notes": list(self.notes),
            "stored": None if self.stored is None else asdict(self.stored),
        }


def _not_judged_json(missed: NotJudged) -> dict[str, JsonValue]:
    return {"from_journal": missed.from_journal, "not_kept": missed.left_out, "damaged": list(missed.damaged)}


def _ids(rules: Iterable[Rule], of_sessions: bool) -> frozenset[str]:
    return frozenset(rule.id for rule in rules if (rule.scope == "session") is of_sessions)


def _change_json(change: RuleChange) -> dict[str, JsonValue]:
    ways: dict[str, JsonValue] = {
        way: {"subjects": change.changed(way), "examples": [example.to_json() for example in examples]}
        for way, examples in change.examples.items()
    }
    return {
        "rule_id": change.rule.id,
        "rule_hash": change.rule.hash,
        "level": change.rule.level,
        "status": change.rule.status,
        **json_of(change.whole),
        "changes": ways,
        "groups": [
            {"agent": agent, "release": release, **json_of(both)} for (agent, release), both in change.groups.items()
        ],
    }


def backtest(connection: Connection, asked: Asked, progress: Progress = unseen, keep: Keep | None = None) -> Backtest:
    """Judge the stored traces by the rules that changed; `progress` shows how far it is, `keep` gets the decisions.

    Raises:
        TraceGradeError: a rule that is named is not there.
        CannotTell: there is no trace to judge, or none of which the store kept what the rules read; a process that
            judges was killed, or crashed.
    """
    rule_set, other = asked.rules.rule_set, asked.other
    began_ns = first_arrival(connection, asked.since_ns)
    if other is None:
        alike = judged_alike_live(connection, rule_set.rules, max(began_ns or 0, asked.since_ns))
        judged_live = LiveResults(connection, [rule.id for rule in rule_set.rules]).hashes.values()
        known = {*judgements(connection), *judged_live}
    else:
        alike = judged_alike(rule_set, other)
        known = {rule.id for rule in other.rule_set.rules}
    chosen = chosen_rules(rule_set, other, asked.named, alike, known)
    found = Backtest(LIVE if other is None else other.name, asked.since_ns, asked.until_ns)
    found.left_alone, found.gone, found.paths = chosen.left_alone, chosen.gone, rule_set.paths
    found.states = chosen.states
    if chosen.ids:
        began_ns = asked.since_ns if began_ns is None else max(began_ns, asked.since_ns)
        _Run(connection, replace(asked, since_ns=began_ns), chosen, found, keep).judge(progress)
    return found


class _Run:
    """One backtest while it is made."""

    def __init__(
        self, connection: Connection, asked: Asked, chosen: Chosen, found: Backtest, keep: Keep | None
    ) -> None:
        self._connection = connection
        self._keep = keep
        self._asked = asked
        self._found = found
        self._rules = asked.rules.rule_set.only(chosen.ids)
        self._live = LiveResults(connection, chosen.ids) if asked.other is None else None
        self._other = None if asked.other is None else asked.other.rule_set.only(chosen.ids)
        self._before = self._rules_before()
        self._changes = Changes(_counting_incomplete(self._before), _counting_incomplete(self._rules.rules))
        self._minutes = CountedMinutes(self._rules.rules)

    def _rules_before(self) -> Collection[Rule]:
        """The rules of the other side; those that judged live in each form that they had, as far as these are known."""
        if self._other is not None:
            return self._other.rules
        assert self._live is not None
        return rules_of(self._connection, self._live.hashes).values()

    def judge(self, progress: Progress) -> None:
        """Judge all traces, and add up."""
        asked, found = self._asked, self._found
        scopes = {rule.scope for rule in (*self._rules.rules, *self._before)}
        if scopes - {"session"}:
            traces = RejudgeTraces(self._connection, asked.result_filter, *self._how(of_sessions=False))
            for kept, said_of in traces.traces("traces judged", progress):
                self._take(kept, said_of)
            found.not_judged = traces.not_judged
        if "session" in scopes:
            sessions = RejudgeSessions(self._connection, asked.result_filter, *self._how(of_sessions=True))
            for session, said_of in sessions.sessions("sessions judged", progress):
                self._take_session(session, said_of)
            found.sessions_not_judged = sessions.not_judged
        if not (found.traces or found.sessions):
            raise CannotTell(self._why_nothing())
        found.changes = [self._changes.of(rule) for rule in self._rules.rules]
        if self._live is not None:
            explain_before(found.changes, self._live.explanation)
        if self._minutes.rules:
            looks = (asked.until_ns - asked.since_ns) // EVERY_NS
            with progress("looks of alerts", looks) as advance:
                found.alerts = self._minutes.preview(self._connection, asked.since_ns, asked.until_ns, advance)

    def _how(self, *, of_sessions: bool) -> tuple[Rejudging, str, Showing, ReadFilter]:
        """How sessions, or traces, are judged again."""
        asked = self._asked
        rules = self._rules.only(_ids(self._rules.rules, of_sessions))
        read, other = rules, None
        if asked.other is not None and self._other is not None:
            ids = _ids(self._other.rules, of_sessions)
            prices = tuple(asked.settings.prices.items())
            other = OtherRules(tuple(asked.other.paths), ids, asked.reading, prices)
            read = RuleSet([*rules.rules, *self._other.only(ids).rules])
        chosen = ReadFilter(asked.service, asked.agent, asked.release)
        by = Rejudging(rules, asked.rules.paths, asked.reading, asked.settings, asked.jobs, asked.data_path, read)
        return by, BACKFILL, Showing(other, chosen, whole=self._keep is not None), chosen

    def _take(self, kept: PackedTrace, shown: RuleResultsOfTrace) -> None:
        """Add up what was said of one trace."""
        trace = kept.trace
        self._found.traces += 1
        if self._keep is not None and shown.decisions:
            self._keep(JudgedAfter(kept.number, trace.trace_id, trace.tenant, trace.revision, shown.decisions))
        self._add(kept, shown, trace.tenant, trace.last_received_ns)

    def _take_session(self, kept: KeptSession, shown: RuleResultsOfTrace) -> None:
        """Add up what was said of one session."""
        self._found.sessions += 1
        if self._keep is not None and shown.decisions:
            if kept.judged:
                self._keep(JudgedAfter(kept.number, kept.trace_id, kept.tenant, kept.revision, shown.decisions))
            else:
                self._found.sessions_not_stored += 1
        self._add(kept, shown, kept.tenant, kept.closed_ns)

    def _add(
        self, kept: PackedTrace | KeptSession, shown: RuleResultsOfTrace, tenant: str, last_received_ns: int
    ) -> None:
        before = shown.before if self._live is None else self._live.results_of(kept.decisions)
        self._changes.add(kept.number, shown.trace_id.hex(), shown.complete, before or (), shown.after)
        if self._minutes.rules:
            self._minutes.add(tenant, shown.complete, last_received_ns, shown.after)

    def _why_nothing(self) -> str:
        asked, found = self._asked, self._found
        for missed, what in ((found.not_judged, "trace"), (found.sessions_not_judged, "session")):
            if missed.left_out:
                which = f"any of the {count(missed.left_out, what)}"
                return f"the store did not keep what the rules read of {which}, and {missed.why}"
        filters = {"service": asked.service, "agent": asked.agent, "release": asked.release, "tenant": asked.tenant}
        of = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
        nothing = "no trace" if any(rule.scope != "session" for rule in self._rules.rules) else "no trace of a session"
        which = f"{nothing} of {of}" if of else nothing
        return f"{which} between {time_text(asked.since_ns)} and {time_text(asked.until_ns)} UTC is in the store"


def _counting_incomplete(rules: Iterable[Rule]) -> set[str]:
    """The ids of the rules whose results of incomplete traces count; of several forms of a rule, the last one says."""
    latest = {rule.id: rule.incomplete for rule in rules}
    return {rule_id for rule_id, incomplete in latest.items() if incomplete == "count"}
