"""What follows from sets of keys is remembered, and a sender that invents keys cannot grow the memory without end."""

from tracegrade.extract.key_sets import ByKeys


def test_a_set_of_keys_is_worked_out_once() -> None:
    asked: list[tuple[str, ...]] = []
    lengths = ByKeys(lambda keys: asked.append(keys) or len(keys))
    assert [lengths["a", "b"], lengths["a", "b"], lengths["b", "a"], lengths[()]] == [2, 2, 2, 0]
    assert asked == [("a", "b"), ("b", "a"), ()]


def test_sets_of_many_or_long_keys_are_not_remembered_nor_more_than_some_thousand_others() -> None:
    lengths = ByKeys(len)
    many, long = tuple(map(str, range(131))), ("k" * 8193,)
    assert (lengths[many], lengths[long]) == (131, 1)
    assert not lengths
    assert all(lengths[str(number),] == 1 for number in range(5000))
    assert 0 < len(lengths) <= 1024
