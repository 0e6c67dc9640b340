"""How much better or worse than the baseline the runs of an experiment were, and what tunes reported, as SVG bars.

It fits every width, as the chart of scores does; how it looks is in the style sheet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from tracegrade.display import count
from tracegrade.history.runs.experiments import EntryStanding, Standing, Timeline
from tracegrade.web.charts.svg import MOST_TICKS, area, line, round_values, text

_TOP, _PLOT, _NAMES = 20.0, 120.0, 40.0  # heights in pixels: above the bars, of the plot, of names
_MARGIN = 1.2  # per cent, on each side
_WIDEST = 6.0  # per cent
_LEAST = 0.01  # so that small differences do not look large
_LEAST_HEIGHT = 1.5
_MOST_NAMES = 12
_LONGEST_NAME = 11

KINDS = {"param_tune": "param tune", "prompt_tune": "prompt tune", "judge": "judge", "eval": "promoted"}
"""What an entry of another tool is called."""


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    delta: float
    is_best: bool


def in_order(found: Timeline) -> list[Standing | EntryStanding]:
    """All runs and entries of an experiment in the order of time; a promoted entry comes after its tune."""
    return sorted([*found.standings, *found.entries], key=_time_of)


def delta_chart(found: Timeline) -> Markup:
    """A bar for each run that is complete and each entry that has a delta; empty with less than one beside the
    baseline, which is the line that they stand on.
    """
    bars = list(_bars(found))
    if not bars or found.baseline is None:
        return Markup("")
    low, high = min(-_LEAST, *(bar.delta for bar in bars)), max(_LEAST, *(bar.delta for bar in bars))
    drawn = [*_grid(low, high), *_drawn(bars, low, high), *_bar_labels(bars)]
    return Markup('<svg class="curve deltas" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_TOP + _PLOT + _NAMES:g}", _description(found, bars), Markup("".join(drawn))
    )


def _time_of(item: Standing | EntryStanding) -> int:
    return item.scored.run.begun_ns if isinstance(item, Standing) else item.entry.at_ns


def _bars(found: Timeline) -> Iterator[_Bar]:
    prefix = f"{found.experiment.name}/"
    for item in in_order(found):
        if item.delta is None or (isinstance(item, Standing) and item.is_baseline):
            continue
        if isinstance(item, EntryStanding):
            if item.entry.promoted_from is None:  # the promoted entry is the tune's own result again
                yield _Bar(KINDS[item.entry.kind], item.delta, item.is_best)
        elif item.scored.run.state == "complete":
            yield _Bar(item.scored.run.name.removeprefix(prefix), item.delta, item.is_best)


def _y(delta: float, low: float, high: float) -> float:
    return _TOP + _PLOT * (high - delta) / (high - low)


def _x(place: int, of: int) -> float:
    return _MARGIN + (100 - 2 * _MARGIN) * (place + 0.5) / of


def _grid(low: float, high: float) -> Iterator[str]:
    ticks = round_values(low, high)
    digits = 2 if len(ticks) < 2 or ticks[1] - ticks[0] >= 0.01 else 4
    for value in ticks:
        y = _y(value, low, high)
        is_zero = abs(value) < 1e-9
        yield line("level was" if is_zero else "grid", "0", "100%", y, y)
        yield text("tick", 0, y - 3, "start", "baseline" if is_zero else _signed(value, digits))


def _drawn(bars: Sequence[_Bar], low: float, high: float) -> Iterator[str]:
    width = min(_WIDEST, 0.6 * (100 - 2 * _MARGIN) / len(bars))
    zero = _y(0, low, high)
    for place, bar in enumerate(bars):
        y, x = _y(bar.delta, low, high), _x(place, len(bars))
        top, height = min(y, zero), max(abs(zero - y), _LEAST_HEIGHT)
        kind = "fill-pass" if bar.delta > 0 else "fill-fail" if bar.delta < 0 else "fill-volume"
        title = escape(f"{bar.name}: {_signed(bar.delta, 4)}")
        yield f"<g><title>{title}</title>{area(kind, x - width / 2, width, top, height)}</g>"
        if len(bars) <= 2 * _MOST_NAMES:
            sign = "★ " if bar.is_best else ""
            above = top - 5 if bar.delta >= 0 else top + height + 13
            yield text("best" if bar.is_best else "name", x, above, "middle", f"{sign}{_signed(bar.delta, 4)}")


def _bar_labels(bars: Sequence[_Bar]) -> Iterator[str]:
    """The names below; of many bars some, and on a narrow page fewer."""
    every, few = -(-len(bars) // _MOST_NAMES), -(-len(bars) // MOST_TICKS)
    for place, bar in enumerate(bars):
        if place % every:
            continue
        short = bar.name if len(bar.name) <= _LONGEST_NAME else f"{bar.name[: _LONGEST_NAME - 1]}…"
        kind = "tick" if place % few == 0 else "tick spare"
        yield text(kind, _x(place, len(bars)), _TOP + _PLOT + 34, "middle", short)


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _description(found: Timeline, bars: Sequence[_Bar]) -> str:
    """The chart in words."""
    assert found.baseline is not None, "there is no chart without one"
    least, most = min(bars, key=lambda bar: bar.delta), max(bars, key=lambda bar: bar.delta)
    ends = f"the least {least.name} {_signed(least.delta, 4)}, the most {most.name} {_signed(most.delta, 4)}"
    return f"Differences of {count(len(bars), 'result')} from the baseline {found.baseline.scored.run.name}, {ends}"
