"""Options that several commands have, and several options as one decorator."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

R = TypeVar("R")

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many, the newest."
)
wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="How many seconds to wait until a running serve has done it.",
)


def together(*options: Callable[[Any], Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """One decorator that adds `options`, which help shows in this order."""

    def add(function: Callable[..., R]) -> Callable[..., R]:
        for option in reversed(options):
            function = option(function)
        return function

    return add
