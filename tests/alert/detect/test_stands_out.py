from collections.abc import Mapping

from tracegrade.alert.detect.stands_out import stands_out as choose


def stands_out(evidence: Mapping[str, float]) -> set[str]:
    """A week of evidence, 30 days between false alarms."""
    return choose(evidence, 7 / 30)


def test_one_series_needs_the_evidence_of_one_alarm() -> None:
    assert stands_out({"a": 1.0}) == {"a"}
    assert stands_out({"a": 0.99}) == set()
    assert stands_out({}) == set()


def test_of_many_a_single_one_must_stand_out_more() -> None:
    others = {str(number): 0.1 for number in range(9)}
    assert stands_out(others | {"high": 9.9}) == set()
    assert stands_out(others | {"high": 10.0}) == {"high"}


def test_several_help_each_other() -> None:
    """Of 10, the fifth needs 2.33 * 10 / 5 = 4.67, the fourth alone 5.83."""
    others = {str(number): 0.1 for number in range(5)}
    four = dict.fromkeys("abcd", 5.0)
    assert stands_out(others | four | {"e": 0.1}) == set()
    assert stands_out(others | four | {"e": 4.7}) == set("abcde")


def test_more_evidence_by_chance_leaves_less_to_help_with() -> None:
    """A week of evidence and a day between false alarms: each of ten needs what one alone does."""
    ten = dict.fromkeys("abcdefghij", 9.0)
    assert choose(ten, 7.0) == set()
    assert choose(ten, 7 / 30) == set("abcdefghij")
