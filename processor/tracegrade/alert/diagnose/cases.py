"""Cases: some of the results since an alert began and before it, with what their traces say of where they are from."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, select

from tracegrade.alert.diagnose.watched import ANY_OUTCOME, Place, Watched
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result
from tracegrade.display import json_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.trace import SPAN_ORDER
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.database import rows_in
from tracegrade.store.index import spread
from tracegrade.store.schema import SUBJECT_KINDS, traces
from tracegrade.store.tallies import Period

MOST_CASES = 300
"""Cases of one time that are bad, and as many that are not."""

MOST_READ = 200
"""Of the cases of one time and outcome, so many are read with their values or spans."""

_AGENT, _TRACE = SUBJECT_KINDS.index("agent"), SUBJECT_KINDS.index("trace")


@dataclass(frozen=True, slots=True)
class Case:
    """One result of one subject, of trace ``trace_id`` in the row ``number``; ``kind`` and ``outcome`` are numbers.

    ``loss`` is how bad it is, 0..1, or what was measured; it stands for ``weight`` results. ``calls`` and ``runs`` are
    those of its subject: rows of the views ``tool_calls`` and ``agent_runs``.
    """

    number: int
    trace_id: str
    time_ns: int
    kind: int
    subject: str
    outcome: int
    score: float | None
    loss: float
    weight: float
    place: Place
    calls: Sequence[Any]
    runs: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Cases of one time, bad ones and others; spread evenly over it, and so is every beginning of both."""

    bad: list[Case]
    good: list[Case]

    def first(self, count: int) -> "Sample":
        """At most `count` of each."""
        return Sample(self.bad[:count], self.good[:count])


def sample(connection: Connection, watched: Watched, period: Period, *, before: bool) -> Sample:
    """Cases of `period`; with `before`, only those of a time that counts as before it began."""
    others = tuple(outcome for outcome in watched.judged if outcome not in watched.bad)
    found = []
    for outcomes in (watched.bad, others):
        cases: list[Case] = []
        for some in _blocks(connection, watched, period, outcomes, before=before):
            cases += [case for case in some if not before or watched.is_before(case.time_ns)]
            if len(cases) >= MOST_CASES:
                break
        found.append(cases[:MOST_CASES])
    return Sample(*found)


def every_case(connection: Connection, watched: Watched, period: Period) -> list[Case]:
    """The cases of `period`, of any outcome and release; of very many, those of traces spread evenly over it."""
    return [case for some in _blocks(connection, watched, period, watched.judged, before=True) for case in some]


def _blocks(
    connection: Connection, watched: Watched, period: Period, outcomes: tuple[int, ...], *, before: bool
) -> Iterator[list[Case]]:
    """The cases with one of `outcomes`, a block of traces at a time."""
    result_filter = replace(watched.result_filter, since_ns=period[0], until_ns=period[1])
    # What was measured has no blocks of its own: the traces are found by what was judged beside it.
    found_by = ANY_OUTCOME if watched.is_of_measure and outcomes else outcomes
    for rows in spread(connection, result_filter, watched.searched(before=before), found_by):
        cases = [case for row in rows for case in _cases_in(watched, row) if case.outcome in outcomes]
        yield [case for case in cases if watched.holds(case.place, before=before)]


def _cases_in(watched: Watched, row: Any) -> Iterator[Case]:
    """The results in one row of ``traces`` that `watched` counts."""
    for series, kind, subject, outcome, score in _results(watched, row):
        place = watched.places.get(series)
        if place is None or place.evaluation != watched.evaluation or outcome not in watched.judged:
            continue
        calls, runs = orjson.loads(row.tool_calls), orjson.loads(row.agent_runs)
        if kind == _AGENT:
            runs = [run for run in runs if run[0] == subject]
            names = {run[1] for run in runs} or {place.agent}  # its own: it may be counted as `other`
            calls = [call for call in calls if call[1] in names]
        elif kind != _TRACE:  # one call, whose id may be followed by its place in a message
            calls = [call for call in calls if call[2] == subject.partition("/")[0]]
            agents = {call[1] for call in calls}
            runs = [run for run in runs if run[1] in agents]
        is_bad = float(outcome in watched.bad)
        loss = is_bad
        if score is not None and (watched.is_of_score or watched.is_of_measure):
            loss = 1 - score if watched.is_of_score else score
        yield Case(
            row.number,
            bytes(row.trace_id).hex(),
            row.first_received_ns,
            kind,
            subject,
            outcome,
            score,
            loss,
            place.weight,
            place,
            calls,
            runs,
        )


def _results(watched: Watched, row: Any) -> Iterator[tuple[int, int, str, int, float | None]]:
    """Of each result: series, kind and id of the subject, outcome and score."""
    if watched.is_of_measure:
        for _, kind, subject, _, _, *measured in orjson.loads(row.decisions):
            for series, value in measured[0] if measured else ():
                if value is not None:
                    yield series, kind, subject, watched.judged[0], value
    elif watched.evaluation:
        for _, series, _, kind, subject, outcome, score, *_ in orjson.loads(row.evaluations):
            yield series, kind, subject, outcome, score
    else:
        for series, kind, subject, _, outcome, *_ in orjson.loads(row.decisions):
            if outcome is not None:
                yield series, kind, subject, outcome, None


def with_values(connection: Connection, cases: Sequence[Case]) -> dict[int, TraceResult]:
    """The whole results of the traces of `cases`, without spans, by number; those that cannot be read are left out."""
    found: dict[int, TraceResult] = {}
    query = select(traces.c.number, traces.c.judged)
    for number, judged in rows_in(connection, query, traces.c.number, sorted({case.number for case in cases})):
        try:
            found[number] = unpack_result(judged, b"")
        except Unreadable:  # damaged, or of another version: others tell enough
            continue
    return found


_LONGEST = 80  # characters of a value; longer ones are texts, which no two results share


def attributes_of(
    connection: Connection, cases: Sequence[Case], names: Sequence[str]
) -> dict[tuple[int, str], Mapping[str, str]]:
    """The values of attributes as text, by the row and the subject of each case, without absent and long ones.

    They are looked up where clauses of rules look them up: in the subject's span, then the root, then the resource.
    Traces whose spans cannot be read are left out.
    """
    subjects = defaultdict[int, set[str]](set)
    for case in cases:
        subjects[case.number].add(case.subject)
    found: dict[tuple[int, str], Mapping[str, str]] = {}
    query = select(traces.c.number, traces.c.spans)
    for number, blob in rows_in(connection, query, traces.c.number, sorted(subjects)):
        try:
            spans = sorted(decode_spans(bytes(blob)).spans, key=SPAN_ORDER)
        except Unreadable:  # damaged, or of another version: others tell enough
            continue
        for subject in subjects[number] if spans else ():
            found[number, subject] = _values(spans, subject, names)
    return found


def _values(spans: Sequence[Span], subject: str, names: Sequence[str]) -> dict[str, str]:
    own = next((span for span in spans if span.span_id.hex() == subject.partition("/")[0]), None)
    root = next((span for span in spans if span.is_local_root), spans[0])
    places = [*([own.attributes] if own is not None else ()), root.attributes, (own or root).resource.attributes]
    texts = ((name, _as_text(place[name])) for place in reversed(places) for name in names if name in place)
    return {name: text for name, text in texts if 0 < len(text) <= _LONGEST}


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text(value)
