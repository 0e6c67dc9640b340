"""What circulates between instances that forward to each other is named, and only that."""

from build import each
from tracegrade.model.signal import Signal
from tracegrade.receive.circle import COMES_BACK, FORGOTTEN_AFTER_S, Circle
from tracegrade.telemetry.conditions import Conditions


class Instance:
    """One of several, by its id; its clock stands still unless the test moves it."""

    def __init__(self, *ids: str) -> None:
        self.id = ids[0]
        self.now_s = 1000.0
        self.conditions = Conditions()
        self.circle = Circle(ids, self.conditions, lambda: self.now_s)

    def sends(self, to: "Instance", signal: Signal = Signal.TRACES) -> bool:
        """One request. Returns whether it is known there as its own."""
        return to.circle.comes_back(signal, self.id, self.circle.heard(signal))

    def names(self, signal: str = "traces") -> bool:
        """Whether it says that something comes back."""
        return self.conditions.holds(COMES_BACK, signal)


def test_two_that_send_to_each_other_are_a_circle() -> None:
    first, second = Instance("first"), Instance("second")
    assert not first.sends(second)
    assert not second.sends(first)
    assert first.names()
    assert not second.names(), "it has not heard that yet"
    first.sends(second)
    assert second.names()
    (condition,) = first.conditions.current()
    assert "'second'" in condition.message


def test_so_are_three_and_a_way_without_return_is_none() -> None:
    first, second, third, last = (Instance(name) for name in ("first", "second", "third", "last"))
    first.sends(second)
    second.sends(third)
    third.sends(last)
    assert not any(each.names() for each in (first, second, third, last))
    third.sends(first)
    assert first.names()
    assert not last.names()


def test_each_signal_goes_its_own_way() -> None:
    first, second = Instance("first"), Instance("second")
    first.sends(second, Signal.METRICS)
    second.sends(first, Signal.TRACES)
    assert not first.names("traces")
    assert not first.names("metrics")


def test_receivers_of_one_topic_are_one() -> None:
    first, other, between = Instance("topic", "first"), Instance("topic", "other"), Instance("between")
    assert first.sends(other), "it is left out"
    first.sends(between)
    between.sends(other)
    assert other.names()


def test_who_is_not_heard_from_is_forgotten_and_the_condition_ends() -> None:
    first, second = Instance("first"), Instance("second")
    first.sends(second)
    second.sends(first)
    second.now_s += FORGOTTEN_AFTER_S + 1
    second.circle.end_quiet()
    second.sends(first)
    first.now_s += FORGOTTEN_AFTER_S
    first.circle.end_quiet()
    assert first.names(), "not yet"
    first.now_s += 1
    first.circle.end_quiet()
    assert not first.names()


@each("heard", ["", ",", "a" * 200, "x\ny", "other," * 100, "öther"])
def test_what_a_sender_says_is_bounded_and_nothing_breaks(heard: str) -> None:
    first = Instance("first")
    assert not first.circle.comes_back(Signal.TRACES, None, heard)
    assert first.circle.heard(Signal.TRACES) == ""
    for number in range(50):
        first.circle.comes_back(Signal.TRACES, f"sender-{number}", heard)
    assert len(first.circle.heard(Signal.TRACES).split(",")) == 32
    assert "sender-49" in first.circle.heard(Signal.TRACES)
    assert not first.names()
