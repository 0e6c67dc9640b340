"""Stores with everything that can be in one, drawn by hypothesis: what lists and counts are tested on.

Traces and sessions of several tenants, releases and runs of replay, at times of which many are equal, judged by rules
of every scope in several forms, in several revisions, some incomplete, some deleted again.
"""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged, trace_id
from build.stored_runs import begin
from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema
from tracegrade.store.delete import delete_everywhere, delete_older
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.write import StoreWriter

TENANTS = ("default", "default", "default", "other")
RUNS = ("live", "live", "live", "tuning/1")
SERVICES = ("shop", "bank", "", "odd\0name")
RELEASES = (None, "1.0", "2.0")
AGENTS = ("support", "billing", "")
RULES = ("first", "second", "of-calls", "of-sessions")
KINDS = {"first": "agent", "second": "trace", "of-calls": "tool-call", "of-sessions": "session"}
OUTCOMES = ("pass", "fail", "not_evaluable", "error")
SESSIONS = (None, "chat-1", "chat-2")
MINUTES = 4
# Of few times, most are another trace's too; some lie on a minute's border.
_OFFSETS_NS = (0, 0, 1, MINUTE_NS - 1)


def filled(engine: Engine, seed: int, traces: int) -> None:
    """Empty the store and fill it anew: the same for the same `seed` and number of `traces`."""
    with engine.begin() as connection:
        own = [schema.trace_keys] if engine.dialect.name == "postgresql" else []
        for table in (*schema.metadata.sorted_tables, *own):
            connection.execute(table.delete())
    for tenant in {*TENANTS}:
        begin(engine, *({*RUNS} - {"live"}), tenant=tenant)
    chance = random.Random(seed)
    writer = StoreWriter(engine)
    written: list[TraceResult] = []
    for _ in range(traces):
        written += _some(chance, chance.randrange(traces))
        if chance.random() < 0.2:
            writer.write(written)
            written = []
    writer.write(written)
    if traces and chance.random() < 0.5:
        delete_everywhere(engine, {bytes.fromhex(trace_id(chance.randrange(traces))) for _ in range(2)})
    if chance.random() < 0.2:
        while delete_older(engine, START_NS + MINUTE_NS // 2):
            pass


def _some(chance: random.Random, number: int) -> Iterator[TraceResult]:
    """A trace in some revision, and the session it is part of as it stands then."""
    received = START_NS + chance.randrange(MINUTES) * MINUTE_NS + chance.choice(_OFFSETS_NS)
    shared: dict[str, Any] = {
        "tenant": chance.choice(TENANTS),
        "run": chance.choice(RUNS),
        "service": chance.choice(SERVICES),
        "release": chance.choice(RELEASES),
        "revision": chance.randrange(1, 4),
        "complete": chance.random() < 0.8,
    }
    session = chance.choice(SESSIONS) if chance.random() < 0.3 else f"chat-{chance.randrange(100, 200)}"
    times = {"first_received_ns": received, "last_received_ns": received + chance.choice((0, 1, MINUTE_NS))}
    judged_by = [_evaluation(chance, number, rule, shared) for rule in _rules(chance, RULES[:3])]
    yield judged(number, evaluations=judged_by, session=session, **shared, **times)
    if session is not None:
        members = {bytes.fromhex(trace_id(number)): shared["revision"], bytes(16): 1}
        judged_by = [_evaluation(chance, number, rule, shared, session) for rule in _rules(chance, RULES[3:])]
        yield judged(number, evaluations=judged_by, session=session, members=members, **shared, **times)


def _rules(chance: random.Random, among: tuple[str, ...]) -> list[str]:
    return [chance.choice(among) for _ in range(chance.choice((0, 1, 1, 2, 5)))]


def _evaluation(
    chance: random.Random, number: int, rule: str, shared: dict[str, Any], session: str | None = None
) -> dict[str, Any]:
    subject = session if session is not None else f"{chance.randrange(3):016x}"
    return evaluation(
        number,
        chance.choice(OUTCOMES),
        rule_id=rule,
        rule_hash=chance.choice(("old", "new")),
        evaluation=chance.choice(("order", "args")),
        case=chance.choice((None, "paris")),
        agent=chance.choice(AGENTS),
        subject={"kind": KINDS[rule], "id": subject},
        session=session,
        **shared,
    )


def _maybe(*values: object) -> st.SearchStrategy[Any]:
    return st.none() | st.none() | st.sampled_from(values)


_times = st.builds(
    lambda minute, offset_ns: START_NS + minute * MINUTE_NS + offset_ns,
    st.integers(0, MINUTES),
    st.sampled_from((0, 1, MINUTE_NS // 2)),
)

filters = st.builds(
    ResultFilter,
    rule=_maybe(*RULES, "unknown"),
    rule_hash=_maybe("old"),
    evaluation=_maybe("order"),
    outcome=_maybe(*OUTCOMES),
    service=_maybe(*SERVICES),
    agent=_maybe(*AGENTS),
    release=_maybe("1.0", "2.0"),
    session=_maybe("chat-1"),
    complete=_maybe(True, False),
    tenant=_maybe("default", "other"),
    run=st.sampled_from(RUNS),
    since_ns=st.none() | _times,
    until_ns=st.none() | _times,
)
