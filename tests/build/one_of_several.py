"""One of several processes that write to one store: what it writes. A module of its own, which they can import."""

import random
from typing import Any

from build.engines import POSTGRESQL
from build.judged_traces import START_NS, evaluation, judged
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter

WRITERS = 4
BATCHES = 12
TRACES = 60  # that all writers store, in some revision
OUTCOMES = ("pass", "fail", "not_evaluable", "error")


def batches(writer: int) -> list[list[TraceResult]]:
    """What a writer stores: traces of its own, and revisions of those that the others store, too."""
    chance = random.Random(writer)
    made = []
    for batch in range(BATCHES):
        own = [_trace(100_000 + 1000 * writer + 10 * batch + place, 1) for place in range(5)]
        shared = [_trace(chance.randrange(TRACES), chance.randrange(1, 9)) for _ in range(15)]
        made.append(chance.sample(own + shared, 20))
    return made


def _trace(number: int, revision: int) -> TraceResult:
    """The same, whoever stores it."""
    chance = random.Random(f"{number} {revision}")
    shared: dict[str, Any] = {"agent": f"agent-{chance.randrange(30)}", "service": "shop", "revision": revision}
    found = [
        evaluation(number, chance.choice(OUTCOMES), rule_id=f"rule-{rule}", **shared)
        for rule in chance.sample(range(9), 3)
    ]
    received_ns = START_NS + number % 7 * 60_000_000_000
    times = {"first_received_ns": received_ns, "last_received_ns": received_ns}
    return judged(number, evaluations=found, revision=revision, **times)


def write(writer: int, begin: Any) -> None:
    """What the process of one writer does, once all of them are there."""
    engine = open_store(POSTGRESQL)
    own = StoreWriter(engine)
    begin.wait()
    for batch in batches(writer):
        own.write(batch)
    engine.dispose()


def write_revision_3() -> None:
    """What the process of another writer does meanwhile."""
    engine = open_store(POSTGRESQL)
    StoreWriter(engine).write([judged(1, "fail", revision=3)])
    engine.dispose()
