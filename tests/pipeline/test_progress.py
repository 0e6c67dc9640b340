from tracegrade.pipeline.progress import LookedThrough


def test_what_is_further_along_of_numbers_and_traces_is_told() -> None:
    looked = LookedThrough((1, 1000), 100)
    assert looked.total == 100
    steps = [looked.steps_to(901, 5), looked.steps_to(801, 60), looked.steps_to(101, 60), looked.steps_to(1, 130)]
    assert steps == [10, 50, 30, 10]


def test_a_side_without_traces_has_a_total_of_none() -> None:
    assert LookedThrough(None, 100).total == 0
