"""Parts of drawings: x in per cent of the width, y in pixels; how they look is in the style sheet."""

from math import ceil, floor, log10

from markupsafe import escape

MOST_TICKS = 4
ACROSS = 1000.0
"""The width of a shape that is stretched to the whole width."""

STRETCHED = (
    f'<svg viewBox="0 0 {ACROSS:g} 1" preserveAspectRatio="none" width="100%" height="1" overflow="visible" '
    'aria-hidden="true">'
)
"""Begins what is stretched, and ends with ``</svg>``."""


def area(name: str, x: float, width: float, y: float, height: float) -> str:
    """A rectangle."""
    return f'<rect class="{name}" x="{x:.2f}%" width="{width:.2f}%" y="{y:.2f}" height="{height:.2f}"/>'


def line(name: str, x1: str, x2: str, y1: float, y2: float) -> str:
    """A line, its x with their unit."""
    return f'<line class="{name}" x1="{x1}" x2="{x2}" y1="{y1:.2f}" y2="{y2:.2f}"/>'


def text(name: str, x: float, y: float, side: str, written: str, gap: int = 0) -> str:
    """A text that begins at, ends at or stands over x: `side` is start, end or middle; `gap` pixels beside it."""
    return f'<text class="{name}" x="{x:.2f}%" y="{y:.2f}" dx="{gap}" text-anchor="{side}">{escape(written)}</text>'


def round_values(low: float, high: float) -> list[float]:
    """Two to five round values between `low` and `high`."""
    rough = (high - low) / MOST_TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
