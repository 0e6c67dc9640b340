"""A comparison in words and numbers, as the terminal, reports and pages show them."""

from collections.abc import Iterator
from itertools import groupby

from tracegrade.compare.arguments import NewArgument
from tracegrade.compare.behaviour import Behaviour, ToolUsage, Variant
from tracegrade.compare.comparison import Compared, ComparedRule, Comparison
from tracegrade.compare.measures import Measured, Summary
from tracegrade.compare.verdict import VERDICTS, Verdict
from tracegrade.display import count


def sum_text(found: Comparison) -> str:
    """What the exit code says; ``Better`` where every rule is."""
    return "Better" if _is_better(found) else {0: "Not worse", 1: "Worse", 3: "Cannot tell"}[found.exit_code]


def _is_better(found: Comparison) -> bool:
    return found.exit_code == 0 and {rule.verdict for rule in found.rules} == {"better"}


_LEAST_CHANGE = 0.005  # of a share: smaller ones are not listed
_MOST_ORDERS = 10
_WHOLE_FROM = 1000  # larger numbers are written without decimal places


def verdict_text(word: Verdict) -> str:
    """A verdict in words."""
    return {"worse_within_margin": "worse within the margin"}.get(word, word.replace("_", " "))


def verdict_counts(found: Comparison) -> str:
    """How many rules have each verdict, the worst first: ``1 rule worse, 2 rules not worse``; after `sum_text`."""
    if _is_better(found):
        return count(len(found.rules), "rule")
    words = [rule.verdict for rule in found.rules]
    parts = [f"{count(words.count(word), 'rule')} {verdict_text(word)}" for word in VERDICTS if word in words]
    return ", ".join(parts) or "no rule judged both sides"


def needs(found: Comparison) -> Iterator[str]:
    """For each rule of which nothing can be told, how many results would tell, and what is hidden by the others."""
    for rule in found.rules:
        if (alone := alone_text(rule)) is not None:
            yield f"{rule.rule_id}: {alone}"
        if rule.needed is not None:
            times, word = rule.needed
            yield (
                f"{rule.rule_id}: {times_text(times)} as many results would tell in four of five comparisons that B is "
                f"{verdict_text(word)}, if the difference stays as it is"
            )


def times_text(times: float) -> str:
    """How many times as many results are needed, as people say it."""
    more = "more than 100" if times > 100 else f"about {times:.0f}" if times >= 10 else f"about {times:.1f}"
    return f"{more} times"


def alone_text(rule: ComparedRule) -> str | None:
    """What would be said of a rule if it were the only one of its family; None where that is the same."""
    difference = rule.whole.found.difference
    if difference is None or rule.verdict_alone == rule.verdict:
        return None
    return (
        f"would be {verdict_text(rule.verdict_alone)} alone (p {p_text(difference.p)}); of "
        f"{count(rule.rules_in_family, f'{rule.family} rule')} that are compared together, chance may make one differ "
        f"so (adjusted p {p_text(rule.adjusted_p)})"
    )


def pair_notes(found: Comparison) -> Iterator[str]:
    """What pairs leave out, and which cases are flaky."""
    for rule in found.rules:
        if (pairs := rule.whole.found.pairs) is None:
            continue
        if pairs.unpaired_a or pairs.unpaired_b:
            alone = f"{pairs.unpaired_a} on A and {pairs.unpaired_b} on B"
            yield f"{rule.rule_id}: results without a partner are left out: {alone}"
        if pairs.flaky:
            yield f"{rule.rule_id}: flaky cases, which both pass and fail on one side: {', '.join(pairs.flaky)}"


NUMBERS = ("A", "B", "difference", "95 % interval", "p", "adjusted p", "results")
"""What `number_cells` are."""


def number_cells(compared: Compared, adjusted_p: float | None = None) -> list[str]:
    """Both rates, the difference in points, its interval, p, adjusted p of a whole rule, and the numbers of results."""
    found = compared.found.difference
    return [
        *map(rate_text, compared.rates),
        "" if found is None else points(found.value),
        "" if found is None else f"{points(found.low)} to {points(found.high)}",
        "" if found is None else p_text(found.p),
        "" if found is None or adjusted_p is None else p_text(adjusted_p),
        _results_text(compared),
    ]


def _results_text(compared: Compared) -> str:
    """How many results, or pairs, and what is taken together."""
    pairs, together = compared.found.pairs, compared.found.clustered_by
    if pairs is None:
        numbers = f"{compared.a.judged} / {compared.b.judged}"
    else:
        numbers = f"{count(pairs.count, 'pair')} by {pairs.by}: {pairs.worse} worse, {pairs.better} better"
    return f"{numbers}; clustered by {together}" if together else numbers


def rate_text(rate: float | None) -> str:
    """A pass rate, ``97.25%``."""
    return "unknown" if rate is None else f"{rate:.2%}"


def points(difference: float) -> str:
    """A difference in points, ``+1.20``; without the sign of a zero."""
    text = f"{difference * 100:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text


def p_text(p: float) -> str:
    """A p-value: ``0.034``, ``< 0.0001``."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def measure_name(name: str) -> str:
    """The name of a measure with its unit."""
    return {"duration_s": "duration, s", "errors": "failed calls"}.get(name, name)


def measure_cells(of: Measured) -> list[str]:
    """Both means, their difference with its interval, the medians, and the values that 95 % of the traces are below."""
    means, medians, ends = zip(*map(_numbers, (of.a, of.b)), strict=True)
    difference = of.difference
    return [
        *means,
        "" if difference is None else _signed(difference[0]),
        "" if difference is None else f"{_signed(difference[1])} to {_signed(difference[2])}",
        " / ".join(medians),
        " / ".join(ends),
    ]


def _signed(value: float) -> str:
    return f"{value:{'+,.0f' if abs(value) >= _WHOLE_FROM else '+.3g'}}" if value else "0"


def _numbers(of: Summary | None) -> list[str]:
    return ["unknown"] * 3 if of is None else [*map(_number, (of.mean, of.median, of.p95))]


def _number(value: float) -> str:
    return f"{value:{',.0f' if abs(value) >= _WHOLE_FROM else '.4g'}}"


def news_of(item: NewArgument) -> str:
    """What is new of an argument, without its values."""
    return f"in {count(item.calls_b, 'call')}, on A in none" if item.new else count(item.new_values, "value")


def tools_to_show(found: Behaviour) -> list[ToolUsage]:
    """The tools that one side alone calls, and those that are called more or less often."""
    return [
        tool
        for tool in found.tools
        if tool.change
        or abs(tool.share_b - tool.share_a) >= _LEAST_CHANGE
        or (
            abs(tool.calls_b - tool.calls_a) >= _LEAST_CHANGE * max(tool.calls_a, tool.calls_b)
            and calls_text(tool.calls_a) != calls_text(tool.calls_b)
        )
    ]


def calls_text(calls: float) -> str:
    """A mean number of calls, ``0.338``."""
    return f"{calls:.3g}"


def orders_to_show(found: Behaviour) -> list[Variant]:
    """The orders whose share changed most."""
    return [order for order in found.orders if abs(order.share_b - order.share_a) >= _LEAST_CHANGE][:_MOST_ORDERS]


def order_text(order: Variant) -> str:
    """The tools of an order; calls of one tool that follow each other once, with their number."""
    parts = [(name, len(list(same))) for name, same in groupby(order.tools)]
    return ", ".join(f"{name} x{times}" if times > 1 else name for name, times in parts) or "no calls"
