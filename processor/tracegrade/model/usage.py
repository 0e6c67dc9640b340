"""Usage of model calls: tokens, and their cost by prices that the user states."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias


class Tokens(NamedTuple):
    """The tokens of some model calls; `input` and `output` are None where only their total was recorded.

    ``cached`` tokens of the input were read from the provider's cache, ``cache_write`` were written to it.
    """

    input: int | None
    output: int | None
    total: int
    cached: int = 0
    cache_write: int = 0


class Usage(NamedTuple):
    """The tokens of one model call; ``model`` is "" where the call does not say its model."""

    model: str
    tokens: Tokens


class Cost(NamedTuple):
    """The cost of model calls, in the user's currency; None where it is not known, and ``unknown`` says why."""

    amount: float | None
    unknown: str = ""


CostOf: TypeAlias = Callable[[Sequence[Usage]], Cost]

NO_PRICES = "the setting traces.prices is empty; state there what each model costs"
"""Why a cost is not known where no model has a price."""


def no_prices(usages: Sequence[Usage]) -> Cost:
    """The cost of model calls where no model has a price."""
    return Cost(None, NO_PRICES)
