"""Charts as SVG, each with a description in words; colours, strokes and text sizes are in the style sheet."""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.store.schema import MINUTE_NS
from tracegrade.web.view import Window

_WIDTH, _RATE_HEIGHT, _BARS_HEIGHT, _GAP = 240.0, 30.0, 12.0, 3.0
_BUDGET_HEIGHT = 45.0


def trend(steps: dict[int, Tally], window: Window, afterwards: dict[int, Tally] | None = None) -> Markup:
    """Pass rate over time with its 95 % interval, above the numbers of results and fails; gaps without results.

    What was judged `afterwards` has a dashed curve of its own. None: a step counts as that when most of it was.
    """
    if afterwards is None:
        afterwards = {number: tally for number, tally in steps.items() if 2 * tally.backfilled > tally.results}
        steps = {number: tally for number, tally in steps.items() if number not in afterwards}
    numbers = window.steps
    width = _WIDTH / max(len(numbers), 1)
    judged, later = ([found.get(number, NO_RESULTS) for number in numbers] for found in (steps, afterwards))
    both = [one.plus(other) for one, other in zip(judged, later, strict=True)]
    most = max((tally.judged for tally in both), default=0)
    drawn = [*_bands(later, width, "band backfilled"), *_bands(judged, width, "band")]
    drawn += [*_lines(later, width, "rate backfilled"), *_lines(judged, width, "rate")]
    for place, tally in enumerate(both):
        if tally.judged:
            drawn.append(_bar(tally, place * width, width, most))
    height = _RATE_HEIGHT + _GAP + _BARS_HEIGHT
    said = _description(judged if any(tally.judged for tally in judged) else later, window)
    if count := sum(tally.backfilled for tally in both):
        said += f"; dashed, {count} judged afterwards"
    return _svg("trend", _WIDTH, height, said, drawn)


def share_bar(tally: Tally) -> Markup:
    """Passes, fails, not evaluable and errors of one group as one bar."""
    parts = (
        ("pass", tally.passed),
        ("fail", tally.failed),
        ("not_evaluable", tally.not_evaluable),
        ("error", tally.errors),
    )
    drawn, at = [], 0.0
    for name, count in parts:
        width = 100 * count / tally.results if tally.results else 0
        if width:
            drawn.append(f'<rect class="fill-{name}" x="{at:.2f}" y="0" width="{width:.2f}" height="8"/>')
        at += width
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in parts if count) or "nothing judged"
    return _svg("share", 100, 8, said, drawn)


def volume(counts: Sequence[int], said: str) -> Markup:
    """Counts over time."""
    width, most = _WIDTH / max(len(counts), 1), max(counts, default=0)
    drawn = []
    for place, count in enumerate(counts):
        if count:
            drawn.append(_column("fill-volume", place * width, width, 40, max(1.0, 40 * count / most)))
    return _svg("volume", _WIDTH, 40, said, drawn)


def burn_down(left: Sequence[float], now: float, window: str) -> Markup:
    """How an error budget became less over its window: from a whole one to what is left `now`, or below nothing."""
    low = min(0.0, *left)
    width = _WIDTH / max(len(left) - 1, 1)

    def y(part: float) -> float:
        return 1 + (_BUDGET_HEIGHT - 2) * (1 - part) / (1 - low)

    points = [f"{place * width:.2f},{y(part):.2f}" for place, part in enumerate(left)]
    corners = [f"{(len(left) - 1) * width:.2f},{y(0):.2f}", f"0,{y(0):.2f}"]
    said = f"Error budget over {window}: {left[len(left) // 2]:.1%} left in the middle of it, {now:.1%} now"
    drawn = [
        f'<polygon class="band" points="{" ".join(points + corners)}"/>',
        f'<line class="zero" x1="0" x2="{_WIDTH:g}" y1="{y(0):.2f}" y2="{y(0):.2f}"/>',
        f'<polyline class="{"overspent" if now < 0 else "rate"}" points="{" ".join(points)}"/>',
    ]
    return _svg("trend", _WIDTH, _BUDGET_HEIGHT, said, drawn)


def _svg(kind: str, width: float, height: float, said: str, drawn: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="chart {kind}" viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(said, Markup("".join(drawn)))


def _y(rate: float) -> float:
    return 1 + (_RATE_HEIGHT - 2) * (1 - rate)


def _runs(judged: Sequence[Tally]) -> list[list[int]]:
    """Sequences of steps without a gap."""
    runs: list[list[int]] = []
    for place, tally in enumerate(judged):
        if tally.judged:
            if runs and runs[-1][-1] == place - 1:
                runs[-1].append(place)
            else:
                runs.append([place])
    return runs


def _bands(judged: Sequence[Tally], width: float, name: str) -> list[str]:
    drawn = []
    for run in _runs(judged):
        upper, lower = [], []
        for place in run:
            low, high = judged[place].interval or (0.0, 1.0)
            # Half a step to both sides, so that the interval of a single step is visible.
            for x in (place * width, (place + 1) * width):
                upper.append(f"{x:.2f},{_y(high):.2f}")
                lower.append(f"{x:.2f},{_y(low):.2f}")
        drawn.append(f'<polygon class="{name}" points="{" ".join(upper + lower[::-1])}"/>')
    return drawn


def _lines(judged: Sequence[Tally], width: float, name: str) -> list[str]:
    drawn = []
    for run in _runs(judged):
        points = [((place + 0.5) * width, _y(judged[place].pass_rate or 0.0)) for place in run]
        if len(points) == 1:
            (x, y) = points[0]
            points = [(x - width / 3, y), (x + width / 3, y)]
        drawn.append(f'<polyline class="{name}" points="{" ".join(f"{x:.2f},{y:.2f}" for x, y in points)}"/>')
    return drawn


def _bar(tally: Tally, x: float, width: float, most: int) -> str:
    base = _RATE_HEIGHT + _GAP + _BARS_HEIGHT
    tall = max(1.0, _BARS_HEIGHT * tally.judged / most)
    failed = tall * tally.failed / tally.judged
    if tally.failed:
        failed = max(failed, 1.0)
    return _column("fill-volume", x, width, base, tall) + (
        _column("fill-fail", x, width, base, failed) if failed else ""
    )


def _column(name: str, x: float, width: float, base: float, tall: float) -> str:
    wide = max(width - 1, 0.5)
    return f'<rect class="{name}" x="{x + 0.5:.2f}" y="{base - tall:.2f}" width="{wide:.2f}" height="{tall:.2f}"/>'


def _description(judged: Sequence[Tally], window: Window) -> str:
    """The chart in one sentence."""
    seen = [(number, tally) for number, tally in zip(window.steps, judged, strict=True) if tally.judged]
    if not seen:
        return f"No results in {window.text}"
    number, last = seen[-1]
    low_number, lowest = min(seen, key=lambda item: item[1].pass_rate or 0.0)
    return (
        f"Pass rate in {window.text}: {last.pass_rate:.1%} of {last.judged} from {_at(number, window)}, "
        f"lowest {lowest.pass_rate:.1%} of {lowest.judged} from {_at(low_number, window)}"
    )


def _at(number: int, window: Window) -> str:
    moment = datetime.fromtimestamp(number * window.step_minutes * MINUTE_NS // 1_000_000_000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
