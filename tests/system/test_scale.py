"""The plan for internet scale: its arithmetic, its simulation, and what it says of wrong usage."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from bench import scale, skew

pytestmark = pytest.mark.long

PLAN = scale.Plan.read()
ALL = {"named": 1.0, "sample": 1.0}


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, scale.__file__, *arguments], capture_output=True, text=True, check=False)


def test_ten_times_the_spans_need_ten_times_as_much() -> None:
    small, large = (PLAN.needs(size, ALL) for size in (1e8, 1e9))

    assert large.judges == pytest.approx(10 * small.judges, rel=0.01)
    assert large.store_tb == pytest.approx(10 * small.store_tb)
    assert sum(PLAN.money(large).values()) == pytest.approx(10 * sum(PLAN.money(small).values()), rel=0.01)


def test_judges_are_the_cores_that_the_busiest_hour_needs() -> None:
    plan = scale.Plan.read(
        {"judge_us_span": 30, "kafka_consume_us_record": 0, "parquet_us_row": 0, "peak": 3, "busy": 0.5}
    )

    assert (
        plan.needs(60e6, ALL).judges == 180
    )  # a million spans a second of 30 µs: 30 cores; three times that, half busy


def test_a_span_that_is_not_judged_costs_what_not_decoding_it_costs() -> None:
    changed = {"judge_us_span": 40, "sampled_out_us_span": 10, "not_named_us_span": 2, "kafka_consume_us_record": 0}
    changed |= {"parquet_us_row": 2, "evaluations_trace": 10, "calls_trace": 9, "spans_trace": 19}

    found = scale.Plan.read(changed).needs(1e6, {"named": 0.5, "sample": 0.1})

    assert found.judged == pytest.approx(0.05)
    assert found.judge_us == pytest.approx(0.05 * 40 + 0.45 * 10 + 0.5 * 2 + 0.05 * 2)


def test_a_mix_can_have_other_costs() -> None:
    changed = {"judge_us_span": 7.0}

    as_given, as_usual = PLAN.needs(1e8, ALL | {"with": changed}), scale.Plan.read(changed).needs(1e8, ALL)

    assert as_given.judges == as_usual.judges != PLAN.needs(1e8, ALL).judges


def test_copies_of_kafka_always_cross_a_zone() -> None:
    plan = scale.Plan.read({"crosses": 0.0})

    assert plan.crossing(("receivers to Kafka, lz4", 5.0)) == 0
    assert plan.crossing(("Kafka's copies", 5.0)) == 5.0


def test_what_is_measured_names_a_command_that_exists() -> None:
    bench = Path(scale.__file__).parent
    for name, entry in PLAN.given["costs"].items():
        assert entry["status"] in ("measured", "prototype", "assumed"), name
        assert ("by" in entry) == (entry["status"] == "measured"), name
        assert entry["status"] != "measured" or (bench / entry["by"].split()[0]).exists(), name


def test_each_table_has_as_many_cells_in_every_line() -> None:
    for name, table in scale.TABLES.items():
        assert len({line.count("|") for line in table(PLAN)}) == 1, name


def test_sizes_of_traces_have_the_mean_of_their_power_law() -> None:
    weights = [size**-skew.TRACE_SIZE_EXPONENT for size in range(1, skew.LARGEST_TRACE + 1)]

    exact = sum(size * weight for size, weight in enumerate(weights, 1)) / sum(weights)

    assert skew.mean_trace() == pytest.approx(exact)


def test_the_hottest_of_many_partitions_is_hotter_in_a_shorter_time() -> None:
    short, long = (skew.hottest_partition(100, 5000, window_s)[0] for window_s in (1, 600))

    assert 1.0 < long < 1.5 < short


@pytest.mark.parametrize("mean", [0.3, 5.0, 200.0])
def test_draws_have_the_mean_and_spread_of_poisson(mean: float) -> None:
    chance = random.Random(7)
    draws = [skew._poisson(chance, mean) for _ in range(4000)]

    average = sum(draws) / len(draws)

    assert average == pytest.approx(mean, rel=0.06)
    assert sum((one - average) ** 2 for one in draws) / len(draws) == pytest.approx(mean, rel=0.15)


def test_the_largest_tenant_is_the_least_that_a_store_can_have() -> None:
    shares = skew.zipf(1000)

    assert skew.hottest_packed(shares, 64) == pytest.approx(64 * shares[0])
    assert skew.hottest_packed(shares, 4) == pytest.approx(1.0, abs=0.01)


def test_one_table_is_printed_with_another_value() -> None:
    values = ("judge_us_span=50", "deliver_us_span=10", "worker_waste_us_span=1")
    done = _run("workers", *(part for value in values for part in ("--set", value)))

    assert done.returncode == 0
    assert "| 1 | 25,000 | 20,000 | judging |" in done.stdout
    assert "| 32 | 450,704 | 100,000 | delivery |" in done.stdout  # 32 judges of 40 + 31 µs, one delivery of 10 µs


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nedds"], "no table nedds; expected costs, workers"),
        (["--set", "judge=5"], "--set judge=5: no 'judge' in unit_costs.yaml; expected one of receive_us_span"),
        (["--set", "peak=two"], "--set peak=two: 'two' is no number"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], says: str) -> None:
    done = _run(*arguments)

    assert done.returncode == 2
    assert says in done.stderr
