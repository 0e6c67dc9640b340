import pytest

from build import each
from tracegrade.model.usage import Tokens, Usage
from tracegrade.rule.prices import Price, Prices


@each(
    ("model", "input_price"),
    [("gpt-4o", 1.0), ("gpt-4o-2024-11-20", 2.0), ("gpt-4o-mini", 3.0), ("gpt-4o-mini-x", 3.0), ("other", None)],
)
def test_a_name_written_out_wins_and_then_the_longest_glob(model: str, input_price: float | None) -> None:
    written = {"gpt-4o*": 2.0, "gpt-4o": 1.0, "gpt-4o-mini*": 3.0}
    prices = Prices({name: Price(input=price, output=0) for name, price in written.items()})
    found = [prices([Usage(model, Tokens(1_000_000, 5, 5))]).amount for _ in range(2)]
    assert found == [input_price, input_price]


def test_tokens_that_cost_nothing_need_not_be_recorded() -> None:
    prices = Prices({"embed": Price(input=0.1, output=0)})
    assert prices([Usage("embed", Tokens(1_000_000, None, 1_000_000))]).amount == pytest.approx(0.1)
    assert prices([Usage("embed", Tokens(None, 5, 5))]).amount is None
