"""The difference of a rule with its interval as a small SVG, beside a line at zero and a dashed one at the margin."""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from tracegrade.compare.comparison import ComparedRule
from tracegrade.compare.shares import Difference
from tracegrade.compare.words import points
from tracegrade.web.charts.svg import line

_HEIGHT = 24.0
_END = 5.0  # half the height of the bar at each end
_LEAST = 0.01
_ROOM = 1.08


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """From what to what the drawings of all rules go, and where the margin is."""

    reach: float
    margin: float

    def x(self, difference: float) -> float:
        """The place of a difference, in per cent of the width; zero is in the middle."""
        return 50 + 50 * max(-1.0, min(1.0, difference / self.reach))


def scale_for(rules: Iterable[ComparedRule], margin: float) -> IntervalScale:
    """A scale that shows every interval of `rules`."""
    found = [rule.whole.found.difference for rule in rules]
    ends = [abs(end) for difference in found if difference is not None for end in (difference.low, difference.high)]
    return IntervalScale(_ROOM * max([_LEAST, margin, *ends]), margin)


def interval_chart(difference: Difference, scale: IntervalScale) -> Markup:
    """One difference."""
    low, value, high = (scale.x(end) for end in (difference.low, difference.value, difference.high))
    middle = _HEIGHT / 2
    drawn = [
        line("zero", "50%", "50%", 0, _HEIGHT),
        line("margin", f"{scale.x(-scale.margin):.2f}%", f"{scale.x(-scale.margin):.2f}%", 0, _HEIGHT),
        line("interval", f"{low:.2f}%", f"{high:.2f}%", middle, middle),
        *(line("interval", f"{end:.2f}%", f"{end:.2f}%", middle - _END, middle + _END) for end in (low, high)),
        f'<circle class="dot" cx="{value:.2f}%" cy="{middle:g}" r="3.5"/>',
    ]
    said = (
        f"Difference {points(difference.value)} points, 95 % interval {points(difference.low)} to "
        f"{points(difference.high)}; the margin is at {points(-scale.margin)}"
    )
    return Markup('<svg class="difference" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_HEIGHT:g}", said, Markup("".join(drawn))
    )
