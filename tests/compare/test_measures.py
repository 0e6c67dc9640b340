import random
from typing import Any

import pytest

from tracegrade.compare.behaviour import SideBehaviour, behaviour
from tracegrade.compare.measures import SideMeasures, Taken, measured, summary_of
from tracegrade.compare.words import measure_cells
from tracegrade.model.usage import Cost, no_prices
from tracegrade.rule.prices import Price, Prices

NS = 1_000_000_000


def side(*traces: tuple[float, int, int, int | None], cost_of: Any = no_prices, weight: float = 1.0) -> SideMeasures:
    """Traces of (seconds, calls, failed calls, tokens)."""
    found = SideMeasures(cost_of)
    for number, (seconds, calls, failed, tokens) in enumerate(traces):
        rows = [["look_up", "", "", 0, 0, "ok", "ok", "timeout" if place < failed else None] for place in range(calls)]
        runs = [["", "", None, None, "small", None, tokens, 0, None]] if tokens is not None else []
        found.add(NS, NS + round(seconds * NS), rows, runs, weight, number)
    return found


def test_what_traces_took() -> None:
    found = measured(side((1.0, 2, 1, 100), (3.0, 4, 0, 300)), side((5.0, 1, 1, None)))
    assert set(found) == {"duration_s", "calls", "errors", "tokens"}  # without prices no cost
    a = found["duration_s"].a
    assert a is not None
    assert (a.traces, a.mean, a.median, a.p95) == (2, 2.0, 1.0, 3.0)
    assert found["tokens"].b is None
    assert found["errors"].to_json()["a"] == {"traces": 2, "mean": 0.5, "median": 0, "p95": 1}
    assert found["calls"].difference is None  # of one trace nothing is known of how calls vary


def test_cost_is_by_the_prices_of_the_settings() -> None:
    prices = Prices({"small": Price(input=10, output=0)})
    found = measured(side((1.0, 1, 0, 1000), cost_of=prices), side((1.0, 1, 0, 3000), cost_of=prices))
    assert found["cost"].a is not None
    assert found["cost"].a.mean == pytest.approx(0.01)


def test_what_is_only_rounding_is_no_difference() -> None:
    """Sums of equal values in another number or order differ in their last digit."""
    prices = Prices({"small": Price(input=0.13, output=0)})
    few, many = (side(*[(1.0, 1, 0, 7)] * number, cost_of=prices) for number in (10, 300))
    assert few.taken["cost"].values[0] * 10 != sum(few.taken["cost"].values), "rounding is seen here"
    found = measured(few, many)["cost"]
    assert found.difference == (0.0, 0.0, 0.0)
    assert measure_cells(found)[2:4] == ["0", "0 to 0"]


def test_tokens_of_a_cache_have_their_own_price() -> None:
    found = SideMeasures(Prices({"small": Price(input=10, output=0, cached_input=1, cache_write=12)}))
    runs = [
        ["", "", None, None, "small", None, 1000, 0, None, 700, 200],  # 100 * 10 + 700 * 1 + 200 * 12
        ["", "", None, None, "small", None, 1000, 0, None],
    ]
    found.add(0, 0, [], runs, 1.0, 0)
    assert found.taken["cost"].values == [pytest.approx(0.0041 + 0.01)]
    assert found.taken["tokens"].values == [2000]


def test_a_trace_of_unknown_cost_is_left_out() -> None:
    found = measured(side((1.0, 1, 0, 1000), cost_of=lambda _: Cost(None, "no price")), side((1.0, 1, 0, 1000)))
    assert "cost" not in found


def test_a_sampled_trace_stands_for_several() -> None:
    taken = Taken([1.0, 5.0], [10.0, 1.0], [0, 1])
    found = summary_of(taken)
    assert found is not None
    assert found.mean == pytest.approx(15 / 11)
    assert (found.median, found.p95) == (1.0, 5.0)


def test_the_interval_of_the_means_holds_for_clusters_too() -> None:
    chance, held, tries = random.Random(3), 0, 400
    for _ in range(tries):
        sides = []
        for _ in range(2):
            found = SideMeasures(no_prices)
            for cluster in range(40):
                own = chance.gauss(10, 2)
                for _ in range(5):
                    found.taken["calls"].add(own + chance.gauss(0, 1), 1.0, cluster)
            sides.append(found)
        difference = measured(*sides)["calls"].difference
        assert difference is not None
        held += difference[1] <= 0 <= difference[2]
    assert 0.91 < held / tries < 0.98


def calls(*names: str) -> list[list[str]]:
    return [[name] for name in names]


def test_tools_that_are_new_gone_or_called_more_often() -> None:
    a, b = SideBehaviour(), SideBehaviour()
    for number in range(4):
        a.add(number.to_bytes(16), calls("find", "refund"), 1.0)
        b.add((9 + number).to_bytes(16), calls("find", "find", "mail") if number else calls("find"), 1.0)
    found = behaviour(a, b)
    by_tool = {tool.tool: tool for tool in found.tools}
    assert {name: tool.change for name, tool in by_tool.items()} == {"find": "", "mail": "new", "refund": "gone"}
    assert (by_tool["find"].calls_a, by_tool["find"].calls_b) == (1.0, 7 / 4)
    assert (by_tool["mail"].share_b, by_tool["mail"].trace_b) == (0.75, f"{10:032x}")
    assert by_tool["mail"].trace_a is None
    assert [(order.tools, order.share_a, order.share_b) for order in found.orders] == [
        (("find", "refund"), 1.0, 0.0),
        (("find", "find", "mail"), 0.0, 0.75),
        (("find",), 0.0, 0.25),
    ]


def test_behaviour_of_a_sample_is_weighed() -> None:
    a, b = SideBehaviour(), SideBehaviour()
    a.add(bytes(16), calls("find"), 9.0)
    a.add(bytes(16), calls("find", "refund"), 1.0)
    b.add(bytes(16), calls("find"), 1.0)
    by_tool = {tool.tool: tool for tool in behaviour(a, b).tools}
    assert by_tool["refund"].share_a == pytest.approx(0.1)


def test_long_orders_are_cut_and_very_many_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.compare.behaviour.MOST_VARIANTS", 2)
    found = SideBehaviour()
    for names in (["a"] * 60, ["a"] * 70, ["b"], ["c"], ["d"], ["b"]):
        found.add(bytes(16), calls(*names), 1.0)
    assert dict(found.variants) == {("a",) * 50 + ("...",): 2, ("b",): 2, ("(other orders)",): 2}
