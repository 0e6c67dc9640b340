"""How ``compare`` shows a comparison on a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracegrade.cli.output import Styled, print_line, print_table, styled
from tracegrade.compare.words import (
    NUMBERS,
    SUMS,
    measure_cells,
    measure_name,
    needs,
    news_of,
    number_cells,
    order_text,
    orders_to_show,
    pair_notes,
    tools_to_show,
    verdict_counts,
    verdict_text,
)

if TYPE_CHECKING:
    from tracegrade.alert.notify.links import Links
    from tracegrade.compare.arguments import NewArgument
    from tracegrade.compare.behaviour import Behaviour
    from tracegrade.compare.comparison import ComparedRule, Comparison
    from tracegrade.compare.measures import Measures
    from tracegrade.compare.verdict import Verdict

_SIGNS: "dict[Verdict, tuple[str, str]]" = {
    "worse": ("✗", "bold red"),
    "worse_within_margin": ("✗", "red"),
    "better": ("✓", "bold green"),
    "not_worse": ("✓", "green"),
    "cannot_tell": ("?", "yellow"),
}
TAKEN = ("mean A", "mean B", "difference", "95 % interval", "median A / B", "95 % are below, A / B")
_MOST_VALUES = 5
_MOST_CHANGES = 5  # of a rule each way; JSON has more


def print_comparison(found: "Comparison", links: "Links") -> None:
    """Print all of a comparison; `links` are the addresses of traces."""
    print_line(f"A {found.a}")
    print_line(f"B {found.b}")
    print_table(
        "",
        ["rule", "family", *NUMBERS, "verdict"],
        _rule_rows(found),
        empty="No rule judged both sides.",
        whole=["A", "B", "difference", "95 % interval", "verdict"],
        spare=["results", "p", "family"],
    )
    changes = list(_change_rows(found, links))
    if changes:
        columns = ["rule", "pairs that changed", "case", "trace A", "trace B"]
        print_table("", columns, changes, whole=["trace A", "trace B"])
    if found.measures:
        print_table("", ["each trace", *TAKEN], _measure_rows(found.measures))
    if found.behaviour is not None:
        _print_behaviour(found.behaviour)
    for note in (*needs(found), *pair_notes(found)):
        print_line(note)
    for rule_id, reason in found.left_out.items():
        print_line(f"{rule_id}: {reason}")
    for note in found.notes:
        print_line(note)
    print_line(f"{SUMS[found.exit_code]}: {verdict_counts(found)}.")


def _rule_rows(found: "Comparison") -> Iterator[list[object]]:
    """A row for each rule, and below it one for each of its evaluations where there are several."""
    for rule in found.rules:
        yield [rule.rule_id, rule.family, *number_cells(rule.whole, rule.adjusted_p), _verdict_cell(rule)]
        for name, compared in rule.evaluations.items():
            yield [f"  {name}", "", *number_cells(compared), ""]


def _change_rows(found: "Comparison", links: "Links") -> Iterator[list[object]]:
    """The first pairs of each rule that changed, for the worse and for the better."""
    for rule in found.rules:
        if (pairs := rule.whole.found.pairs) is None:
            continue
        for way, changes in (("worse", pairs.became_worse), ("better", pairs.became_better)):
            for change in changes[:_MOST_CHANGES]:
                # A saved baseline names no traces.
                on_a = links.trace(change.trace_a) if change.trace_a else ""
                yield [rule.rule_id, way, change.case, on_a, links.trace(change.trace_b)]


def _verdict_cell(rule: "ComparedRule") -> Styled:
    sign, style = _SIGNS[rule.verdict]
    reason = f": {rule.whole.found.reason}" if rule.whole.found.reason else ""
    alone = f"; alone {verdict_text(rule.verdict_alone)}" if rule.verdict_alone != rule.verdict else ""
    return styled(f"{sign} {verdict_text(rule.verdict)}{reason}{alone}", style)


def _measure_rows(measures: "Measures") -> list[list[object]]:
    return [[measure_name(name), *measure_cells(of)] for name, of in measures.items()]


def _print_behaviour(found: "Behaviour") -> None:
    tools = tools_to_show(found)
    if tools:
        rows = [
            [tool.tool, tool.change, *_shares(tool.share_a, tool.share_b), f"{tool.calls_a:.3g} / {tool.calls_b:.3g}"]
            for tool in tools
        ]
        print_table("", ["tool", "", "traces A", "traces B", "calls a trace, A / B"], rows)
    orders = orders_to_show(found)
    if orders:
        rows = [[order_text(order), *_shares(order.share_a, order.share_b)] for order in orders]
        print_table("", ["order of calls", "traces A", "traces B"], rows)

    if found.arguments:
        rows = [[item.tool, item.argument, news_of(item), _values(item)] for item in found.arguments]
        print_table("", ["tool", "argument", "new on B", "such as (calls)"], rows)


def _values(item: "NewArgument") -> str:
    return ", ".join(f"{value.value} ({value.calls})" for value in item.values[:_MOST_VALUES])


def _shares(a: float, b: float) -> tuple[str, str]:
    return f"{a:.1%}", f"{b:.1%}"
