"""What the gate says of figures; no test measures time."""

import json
from pathlib import Path

import pytest
from bench.regression import EVERY_NS, EXPECTED, TOLERANCE, expected_ratios, failures
from bench.stages import Stages

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("times", "fails"),
    [
        pytest.param(1.5, True, id="half as dear again"),
        pytest.param(TOLERANCE - 0.01, False, id="within the tolerance"),
        pytest.param(0.5, False, id="cheaper"),
    ],
)
def test_a_stage_fails_beyond_the_tolerance(times: float, fails: bool) -> None:
    expected = {"decode": 6.0, "match": 0.9}

    assert failures({"decode": 6.0 * times, "match": 0.9}, expected) == ({"decode"} if fails else set())


def test_a_stage_of_which_nothing_is_expected_fails() -> None:
    assert failures({"guess": 0.1}, {"decode": 6.0}) == {"guess"}


def test_a_build_is_held_against_its_own_ratios() -> None:
    assert expected_ratios({"one": {"decode": 4.0}, "other": {"decode": 9.0}}, "one") == {"decode": 4.0}


def test_an_unmeasured_build_is_held_against_the_middle_of_all() -> None:
    assert expected_ratios({"one": {"decode": 4.0}, "other": {"decode": 9.0}}, "third") == {"decode": 6.0}


def test_every_stage_has_a_committed_ratio_for_every_build(tmp_path: Path) -> None:
    ran = []
    with Stages(tmp_path, rules=10, every_ns=EVERY_NS) as stages:
        for _ in range(4):
            stages.take_request(lambda stage, work: (ran.append(stage), work())[1])

    for ratios in json.loads(EXPECTED.read_text()).values():
        assert ratios.keys() == set(ran)
