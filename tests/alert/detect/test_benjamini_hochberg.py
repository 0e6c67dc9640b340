from tracegrade.alert.detect.benjamini_hochberg import benjamini_hochberg


def test_one_series_is_the_plain_test() -> None:
    assert benjamini_hochberg({"a": 0.01}, 0.01) == {"a"}
    assert benjamini_hochberg({"a": 0.011}, 0.01) == set()
    assert benjamini_hochberg({}, 0.01) == set()


def test_of_many_a_single_one_must_stand_out_more() -> None:
    p_values = {str(number): 0.5 for number in range(9)} | {"low": 0.004}
    assert benjamini_hochberg(p_values, 0.01) == set()
    assert benjamini_hochberg(p_values | {"low": 0.001}, 0.01) == {"low"}


def test_several_help_each_other() -> None:
    """At 0.05 of 4: bounds 0.0125, 0.025, 0.0375, 0.05; the third is within its own, so all three are."""
    assert benjamini_hochberg({"a": 0.02, "b": 0.024, "c": 0.03, "d": 0.9}, 0.05) == {"a", "b", "c"}
