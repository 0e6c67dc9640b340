"""The scores of an experiment's runs as SVG: one point a run, the baseline as a line, a star on each new best.

It fits every width, as the curve of an incident does; how it looks is in the style sheet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from tracegrade.display import count
from tracegrade.history.runs.experiments import Standing, Timeline
from tracegrade.web.charts.svg import ACROSS, MOST_TICKS, STRETCHED, line, round_values, text

_TOP, _PLOT, _NAMES = 26.0, 150.0, 24.0  # heights in pixels: of a label over the highest point, of the plot, of names
_MARGIN = 1.2  # per cent, on each side
_ROOM = 0.12  # above and below the scores, as a part of their range
_LEAST_RANGE = 0.01
_MOST_NAMES = 12
_LONGEST_NAME = 9
_MOST_DOTS = 200


@dataclass(frozen=True, slots=True)
class _Point:
    """One run with a score, at its place among all runs; ``name`` is empty where there is no room for it."""

    standing: Standing
    score: float
    x: float


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float

    def score_of(self, pixels: float) -> float:
        """How much of a score so many pixels are."""
        return (self.high - self.low) * pixels / _PLOT

    def y(self, score: float) -> float:
        """Where a score is, in pixels from the top."""
        return _TOP + _PLOT * (1 - (score - self.low) / (self.high - self.low))


def score_chart(found: Timeline) -> Markup:
    """The scores of the runs in the order in which they were begun; empty with less than two of them."""
    points = list(_points(found.standings))
    if len(points) < 2:
        return Markup("")
    scale = _scale([point.score for point in points])
    drawn = [
        *_grid(scale),
        *_baseline(found.baseline, scale),
        *_shape([point for point in points if point.standing.scored.run.state == "complete"], scale),
        *(_dot(point, scale) for point in points if len(points) <= _MOST_DOTS),
        *_labels(found, points, scale),
        *_run_labels(found),
    ]
    return Markup('<svg class="curve scores" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_TOP + _PLOT + _NAMES:g}", _description(found, points), Markup("".join(drawn))
    )


def _x(place: int, of: int) -> float:
    return _MARGIN + (100 - 2 * _MARGIN) * (place + 0.5) / of


def _points(standings: Sequence[Standing]) -> Iterator[_Point]:
    for place, standing in enumerate(standings):
        if standing.scored.score is not None:
            yield _Point(standing, standing.scored.score, _x(place, len(standings)))


def _scale(scores: Sequence[float]) -> _Scale:
    low, high = min(scores), max(scores)
    room = max(_ROOM * (high - low), _LEAST_RANGE / 2)
    return _Scale(max(low - room, 0.0) if low >= 0 else low - room, high + room)


def _grid(scale: _Scale) -> Iterator[str]:
    ticks = round_values(scale.low, scale.high)
    digits = 2 if len(ticks) < 2 or ticks[1] - ticks[0] >= 0.01 else 4
    for value in ticks:
        if value > 1 + 1e-9:  # no score is above 1
            break
        y = scale.y(value)
        yield line("grid", "0", "100%", y, y)
        yield text("tick", 0, y - 3, "start", f"{value:.{digits}f}")


def _baseline(baseline: Standing | None, scale: _Scale) -> Iterator[str]:
    if baseline is None or baseline.scored.score is None:
        return
    y = scale.y(baseline.scored.score)
    yield line("level was", "0", "100%", y, y)
    yield text("name was", 100, y + 13, "end", f"baseline {baseline.scored.score:.4f}")


def _shape(points: Sequence[_Point], scale: _Scale) -> Iterator[str]:
    """The line through the runs that are complete."""
    if len(points) < 2:
        return
    yield STRETCHED
    places = " ".join(f"{ACROSS / 100 * point.x:.2f},{scale.y(point.score):.2f}" for point in points)
    yield f'<polyline class="rate" points="{places}"/></svg>'


def _dot(point: _Point, scale: _Scale) -> str:
    run = point.standing.scored.run
    kind = "dot" if run.state == "complete" else "dot unfinished"
    title = escape(f"{run.name}: {point.score:.4f}" + (f", {run.state}" if run.state != "complete" else ""))
    return (
        f'<circle class="{kind}" cx="{point.x:.2f}%" cy="{scale.y(point.score):.2f}" r="4"><title>{title}</title>'
        "</circle>"
    )


def _labels(found: Timeline, points: Sequence[_Point], scale: _Scale) -> Iterator[str]:
    """A star over each run that was better than all before; the score at the best, and at the latest."""
    latest = points[-1].standing
    for point in points:
        is_best = point.standing is found.best
        y = scale.y(point.score) - 9
        side = "start" if point.x < 40 else "end" if point.x > 60 else "middle"
        if is_best:
            yield text("best", point.x, y, side, f"★ best {_score_text(point.standing)}")
        elif point.standing.is_best:
            yield text("best", point.x, y, "middle", "★")
        if point.standing is latest and not is_best:
            # Below its point, out of the way of the best; above it where the baseline's name would be.
            below = found.baseline is None or abs(point.score - (found.baseline.scored.score or 0)) > scale.score_of(36)
            yield text("name latest", point.x, y + 26 if below else y, side, _score_text(latest))


def _score_text(standing: Standing) -> str:
    score = f"{standing.scored.score:.4f}"
    if standing.delta is None or standing.is_baseline:
        return score
    return f"{score} ({standing.delta:+.4f})".replace("-", "\N{MINUS SIGN}")


def _run_labels(found: Timeline) -> Iterator[str]:
    """The names below; of many runs some, and on a narrow page fewer: the first, the last and some between."""
    number = len(found.standings)
    every = -(-number // _MOST_NAMES)
    few = -(-number // MOST_TICKS)
    for place, standing in enumerate(found.standings):
        if place % every:
            continue
        name = standing.scored.run.name.removeprefix(f"{found.experiment.name}/")
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        kind = "tick" if place % few == 0 else "tick spare"
        yield text(kind, _x(place, number), _TOP + _PLOT + 18, "middle", short)


def _description(found: Timeline, points: Sequence[_Point]) -> str:
    """The chart in words."""
    parts = [f"Scores of {count(len(points), 'run')} of {found.experiment.name}"]
    if found.baseline is not None:
        parts.append(f"the baseline {found.baseline.scored.run.name} {_score_text(found.baseline)}")
    if found.best is not None:
        parts.append(f"the best {found.best.scored.run.name} {_score_text(found.best)}")
    latest = points[-1].standing
    parts.append(f"the latest {latest.scored.run.name} {_score_text(latest)}")
    return ", ".join(parts)
