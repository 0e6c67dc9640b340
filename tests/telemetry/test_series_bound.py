from tracegrade.telemetry.metrics import Telemetry
from tracegrade.telemetry.series_bound import SeriesBound


def test_names_fit_up_to_the_bound_then_less_exact_ones_then_the_last() -> None:
    bound = SeriesBound(10)
    given = [bound.fit("m", 2, (("a", str(n)), ("a", "other"), ("other", "other"))) for n in range(7)]
    assert given == [*((("a", str(n))) for n in range(4)), *[("a", "other")] * 3], "a fifth is kept for the less exact"
    assert bound.fit("m", 2, (("b", "1"), ("b", "other"), ("other", "other"))) == ("other", "other")
    assert (bound.series, bound.folded) == (12, 4)


def test_what_was_given_stays_and_costs_nothing_again() -> None:
    bound = SeriesBound(4)
    for _ in range(3):
        assert bound.fit("m", 4, (("a",), ("other",))) == ("a",)
        assert bound.fit("m", 4, (("b",), ("other",))) == ("other",)
    assert (bound.series, bound.folded) == (8, 1)


def test_the_sum_over_all_metrics_is_bounded() -> None:
    bound = SeriesBound(3)
    found = [bound.fit(metric, 1, (("a",), ("other",))) for metric in ("m", "n", "o", "p")]
    assert found == [("a",), ("a",), ("a",), ("other",)]


def test_what_does_not_fit_is_a_condition_and_a_number() -> None:
    telemetry = Telemetry("judge", max_series=1)
    assert telemetry.fit("tracegrade.decisions", 1, ("a",), ("other",)) == ("a",)
    assert telemetry.snapshot()["conditions"] == []
    assert telemetry.fit("tracegrade.decisions", 1, ("b",), ("other",)) == ("other",)
    assert telemetry.fit("tracegrade.decisions", 1, ("c",), ("other",)) == ("other",)
    snapshot = telemetry.snapshot()
    (condition,) = snapshot["conditions"]
    assert (condition["name"], condition["message"]) == (
        "too_many_series",
        "there is room for 1 series; what does not fit counts as other",
    )
    assert snapshot["metrics"]["tracegrade.series"] == [{"labels": {}, "value": 2}]
    assert snapshot["metrics"]["tracegrade.series.folded"] == [{"labels": {}, "value": 2}]
