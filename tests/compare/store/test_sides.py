from collections import Counter

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from build import any_store, store_with
from build.judged_traces import evaluation, judged, tool_call, trace_id
from tracegrade.compare.store.sides import (
    SideSeries,
    runs_with_results,
    side_calls,
    side_rows,
    side_series,
)
from tracegrade.model.tally import NO_RESULTS
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import OUTCOMES
from tracegrade.store.tallies import tallies
from tracegrade.store.write import StoreWriter


def of_all_times(found: ResultFilter) -> ResultFilter:
    """The same filter as series know it: without what only single results and traces have."""
    names = ("rule", "rule_hash", "service", "agent", "release", "tenant", "run")
    return ResultFilter(**{name: getattr(found, name) for name in names})


def test_rows_and_counts_agree_in_any_store(tmp_path_factory, monkeypatch: pytest.MonkeyPatch) -> None:
    # Retention deletes traces within a minute, and counts by whole minutes: in between, counts have more.
    monkeypatch.setattr(any_store, "delete_older", lambda *_: 0)
    engine = open_store(store_with(tmp_path_factory.mktemp("store")))

    @given(st.integers(0, 10_000), st.integers(0, 25), any_store.filters)
    def agree(seed: int, size: int, drawn: ResultFilter) -> None:
        any_store.filled(engine, seed, size)
        asked = of_all_times(drawn)
        with reading(engine) as connection:
            chosen = side_series(connection, asked)
            rows = [row for some in side_rows(connection, asked, chosen) for row in some]
            stored: Counter[tuple[SideSeries, bool, str]] = Counter()
            for row in rows:
                for series, outcome in [(item[1], item[5]) for item in orjson.loads(row.evaluations)]:
                    if series in chosen:
                        stored[chosen[series], bool(row.complete), OUTCOMES[outcome]] += 1
                for series, _, _, _, outcome, *_ in orjson.loads(row.decisions):
                    if outcome is not None and series in chosen:
                        stored[chosen[series], bool(row.complete), OUTCOMES[outcome]] += 1
            counted: Counter[tuple[SideSeries, bool, str]] = Counter()
            every = tallies(connection, asked, ["number"], of="both", incomplete="count")
            whole = tallies(connection, asked, ["number"], of="both", incomplete="skip")
            for (number,), tally in every.items():
                complete = whole.get((number,), NO_RESULTS)
                for name, of_all, of_complete in zip(OUTCOMES, tally[:4], complete[:4], strict=True):
                    counted[chosen[number], True, name] += of_complete
                    counted[chosen[number], False, name] += of_all - of_complete
        numbers = [row.number for row in rows]
        assert numbers == sorted(set(numbers), reverse=True)
        assert +stored == +counted

    agree()
    engine.dispose()


def many(first: int, last: int, **changes: object) -> list[TraceResult]:
    return [judged(number, evaluations=[evaluation(number, **changes)]) for number in range(first, last)]


def test_rows_of_a_few_results_among_many_are_found(engine: Engine) -> None:
    StoreWriter(engine).write([*many(1, 200), *many(200, 205, rule_id="rare"), *many(205, 700)])
    asked = ResultFilter(rule="rare")
    with reading(engine) as connection:
        parts = list(side_rows(connection, asked, side_series(connection, asked)))
    found = {bytes(row.trace_id).hex() for rows in parts for row in rows}
    assert {trace_id(number) for number in range(200, 205)} <= found
    assert len(found) <= 2 * 64


def test_calls_come_with_their_values(engine: Engine) -> None:
    StoreWriter(engine).write(
        [
            judged(number, evaluations=[evaluation(number)], tool_calls=[tool_call(arguments={"n": number})])
            for number in (1, 2, 3)
        ]
    )
    with reading(engine) as connection:
        chosen = side_series(connection, ResultFilter())
        numbers = sorted(row.number for some in side_rows(connection, ResultFilter(), chosen) for row in some)
        ((first, calls), *_), *_ = side_calls(connection, numbers[1:])
    assert (first, calls[0].arguments) == (trace_id(3), {"n": 3})


def test_runs_have_names(engine: Engine) -> None:
    with reading(engine) as connection:
        assert runs_with_results(connection) == []
    StoreWriter(engine).write(many(1, 2))
    with reading(engine) as connection:
        assert runs_with_results(connection) == ["live"]
