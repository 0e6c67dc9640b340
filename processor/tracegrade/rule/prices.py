"""Prices of models, as the user states them, since they change. There is no list of our own."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from tracegrade.document.file_model import FileModel
from tracegrade.evaluate.criteria.regular_expressions import glob_expression
from tracegrade.model.usage import Cost, CostOf, Tokens, Usage, no_prices
from tracegrade.rule.glob_table import GlobTable
from tracegrade.rule.mistakes import mistake, refuse

_TOKENS = 1_000_000


class Price(FileModel):
    """The price of a million tokens of a model, in a currency of the user's choice."""

    input: float = Field(ge=0, description="A million tokens that the model reads")
    output: float = Field(ge=0, description="A million tokens that it writes")
    cached_input: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="A million tokens that were read from the provider's cache; as input unless set",
    )
    cache_write: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="A million tokens that were written to the provider's cache; as input unless set",
    )

    def of(self, tokens: Tokens) -> float | None:
        """What `tokens` cost; None where a count that costs something was not recorded.

        Tokens read from or written to a cache are a part of the input, as the conventions say. Where they are more
        than the input, they were counted beside it.
        """
        if (tokens.input is None and self.input) or (tokens.output is None and self.output):
            return None
        input_tokens, by_cache = tokens.input or 0, tokens.cached + tokens.cache_write
        plain = input_tokens - by_cache if by_cache <= input_tokens else input_tokens
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        cost = plain * self.input + tokens.cached * cached + tokens.cache_write * written
        return (cost + (tokens.output or 0) * self.output) / _TOKENS


class Prices:
    """The prices of models by name; called with what model calls used, gives what they cost together.

    Names may be globs; of several that fit, one is chosen as in `GlobTable`.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = GlobTable(prices.items())
        self._any = bool(prices)

    def of_model(self, model: str) -> Price | None:
        """The price of the model of this name; None where there is none."""
        return self._prices.find(model)

    def __call__(self, usages: Sequence[Usage]) -> Cost:
        """The cost of all `usages`; not known when that of one is not."""
        if not self._any:
            return no_prices(usages)
        if not usages:
            return Cost(None, "no model call recorded its tokens")
        total = 0.0
        for model, tokens in usages:
            if not model:
                return Cost(None, "a model call that recorded its tokens does not say its model")
            if (price := self.of_model(model)) is None:
                return Cost(None, f"the setting traces.prices has no price of the model {model!r}")
            if (cost := price.of(tokens)) is None:
                return Cost(None, f"a call of the model {model!r} did not record its input and its output tokens")
            total += cost
        return Cost(total)


def cost_by(prices: Mapping[str, Price]) -> CostOf:
    """What gives the cost of model calls by `prices`; `no_prices` where there are none, which needs no tokens read."""
    return Prices(prices) if prices else no_prices


def check_prices(prices: dict[str, Price]) -> dict[str, Price]:
    """`prices` as they are; refused when a model has no name, or a glob is none."""
    mistakes = []
    for name in prices:
        if not name:
            mistakes.append(mistake("expected the name of a model or a glob such as 'gpt-4o*', found ''", name))
        try:
            glob_expression(name)
        except ValueError as error:
            mistakes.append(mistake(str(error), name))
    if mistakes:
        raise refuse(mistakes)
    return prices
