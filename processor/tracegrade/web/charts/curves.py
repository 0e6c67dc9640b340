"""The curve of an incident as SVG: what is watched, what was usual, and when it began, was found and ended.

It fits every width: shapes are stretched, texts and dots are not. Every line has its name beside it, so that no colour
is needed; how it looks is in the style sheet.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from tracegrade.store.schema import MINUTE_NS
from tracegrade.web.charts.svg import MOST_TICKS, STRETCHED, area, line, round_values, text
from tracegrade.web.watched_values import Value, WatchedValues

_ROW, _PLOT, _TIMES = 17, 170, 24  # heights in pixels: of a mark's name, of the curve, of the times below it
_MARGIN = 1.2  # per cent, on each side
_EDGE = 11
_ROOM = 0.13  # above and below the values, as a part of their range: a name fits there
_MOST_DOTS = 60
_HOUR = 60
_TICK_MINUTES = (5, 10, 15, 30, _HOUR, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200)
# A gap of so many values' times breaks the line.
_GAP = 3
_SMALL_WIDTH, _SMALL_HEIGHT = 240.0, 40.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment with its name: ``kind`` is began, found or ended."""

    kind: str
    name: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Level:
    """A value with its name, drawn over the whole time: ``kind`` is was or bound."""

    kind: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where times and values are: x in per cent of the width, y in pixels from the top."""

    since_ns: int
    until_ns: int
    low: float
    high: float
    top: float
    height: float

    def x(self, time_ns: int) -> float:
        inside = min(max(time_ns, self.since_ns), self.until_ns)
        return _MARGIN + (100 - 2 * _MARGIN) * (inside - self.since_ns) / (self.until_ns - self.since_ns)

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.top + self.height * (1 - (inside - self.low) / (self.high - self.low))


def curve(
    found: WatchedValues, levels: Sequence[Level], marks: Sequence[Mark], said: str, text_of: Callable[[float], str]
) -> Markup:
    """The values with what was usual, levels and moments; `said` is all of it in words.

    Args:
        found: the values.
        levels: values to compare with, such as the bound.
        marks: moments, in the order of their names from above.
        said: for those who do not see it.
        text_of: a value as people read it.
    """
    top = float(_ROW * len(marks) + 6)
    low, highest, high = _range(found, levels)
    scale = _Scale(found.since_ns, found.until_ns, low, high, top, _PLOT)
    drawn = [
        *_areas(found, marks, scale),
        *_grid(scale, text_of, highest, found.is_count),
        *_levels(found, levels, scale),
        *_shape(found, scale),
        *(_dot(value, scale) for value in found.values if len(found.values) <= _MOST_DOTS and not found.is_count),
        *_marks(marks, scale),
        *_times(scale),
    ]
    return Markup('<svg class="curve" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{top + _PLOT + _TIMES:g}", said, Markup("".join(drawn))
    )


def small_curve(found: WatchedValues, levels: Sequence[Level], said: str) -> Markup:
    """The values and levels alone, with the moment when it began."""
    low, _, high = _range(found, levels)
    scale = _Scale(found.since_ns, found.until_ns, low, high, 2, _SMALL_HEIGHT - 4)
    x = f"{scale.x(found.began_ns):.2f}%"
    drawn = [
        *(line(f"level {level.kind}", "0", "100%", scale.y(level.value), scale.y(level.value)) for level in levels),
        *_shape(found, scale),
        line("mark began", x, x, 0, _SMALL_HEIGHT),
    ]
    return Markup('<svg class="curve small" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_SMALL_HEIGHT:g}", said, Markup("".join(drawn))
    )


def _range(found: WatchedValues, levels: Iterable[Level]) -> tuple[float, float, float]:
    """The lowest and the highest value that are shown, and the highest place, with room for a name above and below."""
    shown = [value.value for value in found.values] + [level.value for level in levels] + [*(found.usual or ())]
    low, high = min(shown, default=0.0), max(shown, default=1.0)
    room = (high - low) * _ROOM or 0.05 * (abs(high) or 1.0)
    return 0.0 if found.is_count else max(low - room, 0.0), high, high + room


def _areas(found: WatchedValues, marks: Sequence[Mark], scale: _Scale) -> Iterator[str]:
    ended_ns = next((mark.time_ns for mark in marks if mark.kind == "ended"), found.until_ns)
    begin, end = scale.x(found.began_ns), scale.x(ended_ns)
    yield area("during", begin, end - begin, scale.top, scale.height)
    if found.usual is not None:
        low, high = found.usual
        tall = max(scale.y(low) - scale.y(high), 2.0)
        yield area("usual", _MARGIN, 100 - 2 * _MARGIN, scale.y(high), tall)


def _grid(scale: _Scale, text_of: Callable[[float], str], highest: float, is_count: bool) -> Iterator[str]:
    for value in round_values(scale.low, scale.high):
        if is_count and value % 1:  # no half results
            continue
        if value > highest + 1e-9:  # no share is above 1
            break
        y = scale.y(value)
        yield line("grid", f"{_MARGIN}%", f"{100 - _MARGIN}%", y, y)
        yield text("tick", _MARGIN, y - 3, "start", text_of(value))


def _levels(found: WatchedValues, levels: Sequence[Level], scale: _Scale) -> Iterator[str]:
    """Lines, each with its name on the side away from the values since it began, or from the other line."""
    highest = max((level.value for level in levels), default=0.0)
    since = [value.value for value in found.values if value.since_ns >= found.began_ns]
    for level in levels:
        y = scale.y(level.value)
        yield line(f"level {level.kind}", f"{_MARGIN}%", f"{100 - _MARGIN}%", y, y)
        is_over_values = not since or sum(since) / len(since) <= level.value
        above = level.value == highest if len(levels) > 1 else is_over_values
        yield text(f"name {level.kind}", 100 - _MARGIN, y - 4 if above else y + 13, "end", level.name)


def _shape(found: WatchedValues, scale: _Scale) -> Iterator[str]:
    """The line, or bars of numbers, stretched to the width."""
    yield STRETCHED
    if found.is_count:
        for value in found.values:
            x, end = (10 * scale.x(time_ns) for time_ns in (value.since_ns, value.until_ns))
            tall = max(scale.y(0) - scale.y(value.value), 1.0)
            wide = max(0.8 * (end - x), 0.5)
            yield (
                f'<rect class="fill-volume" x="{x:.2f}" y="{scale.y(value.value):.2f}" width="{wide:.2f}" '
                f'height="{tall:.2f}"/>'
            )
    else:
        for run in _runs(found.values):
            points = [(10 * scale.x(value.middle_ns), scale.y(value.value)) for value in run]
            if len(points) == 1:
                ((_, y),) = points
                points = [(10 * scale.x(time_ns), y) for time_ns in (run[0].since_ns, run[0].until_ns)]
            yield f'<polyline class="rate" points="{" ".join(f"{x:.2f},{y:.2f}" for x, y in points)}"/>'
    yield "</svg>"


def _runs(values: Sequence[Value]) -> list[list[Value]]:
    """Values without a long gap between them."""
    runs: list[list[Value]] = []
    for value in values:
        longest = _GAP * max(value.until_ns - value.since_ns, MINUTE_NS)
        if runs and value.since_ns - runs[-1][-1].until_ns <= longest:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _dot(value: Value, scale: _Scale) -> str:
    return f'<circle class="dot" cx="{scale.x(value.middle_ns):.2f}%" cy="{scale.y(value.value):.2f}" r="2.5"/>'


def _marks(marks: Sequence[Mark], scale: _Scale) -> Iterator[str]:
    # A name stands beside its line on the side with more room. So that it crosses the lines of others seldom, the later
    # ones stand higher where names are on the left.
    ordered = [*marks] if scale.x(marks[0].time_ns) < 50 else [*reversed(marks)]
    for row, mark in enumerate(ordered):
        x = scale.x(mark.time_ns)
        yield line(f"mark {mark.kind}", f"{x:.2f}%", f"{x:.2f}%", _ROW * row + 3, scale.top + scale.height)
    for row, mark in enumerate(ordered):
        x = scale.x(mark.time_ns)
        side, gap = ("start", 5) if x < 50 else ("end", -5)
        yield text(f"name {mark.kind}", x, _ROW * row + 13, side, mark.name, gap)


def _times(scale: _Scale) -> Iterator[str]:
    first, last = scale.since_ns // MINUTE_NS, scale.until_ns // MINUTE_NS
    step = next((each for each in _TICK_MINUTES if (last - first) <= each * MOST_TICKS), _TICK_MINUTES[-1])
    bottom = scale.top + scale.height
    for minute in range(-(-first // step) * step, last + 1, step):
        x = scale.x(minute * MINUTE_NS)
        if not _EDGE <= x <= 100 - _EDGE:  # its text would be cut off
            continue
        yield line("grid", f"{x:.2f}%", f"{x:.2f}%", bottom, bottom + 5)
        yield text("tick", x, bottom + 18, "middle", moment_text(minute * MINUTE_NS, step >= 1440))


def moment_text(time_ns: int, is_day: bool = False) -> str:
    """A time on the page of one incident: "23 Nov 08:00", or the day alone."""
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    return f"{moment.day} {moment:%b}" if is_day else f"{moment.day} {moment:%b %H:%M}"
