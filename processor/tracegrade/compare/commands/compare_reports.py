"""What ``tracegrade compare`` prints: tables, JSON, and reports for CI."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from tracegrade.cli.output import Styled, markdown_table, print_json, print_line, print_lines, print_table, styled
from tracegrade.cli.reports import (
    SARIF_LEVELS,
    as_code,
    as_markdown,
    file_location,
    junit_document,
    link_markdown,
    sarif_log,
    xml_text,
)
from tracegrade.compare.words import (
    NUMBERS,
    measure_cells,
    measure_name,
    needs,
    news_of,
    number_cells,
    order_text,
    orders_to_show,
    pair_notes,
    sum_text,
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
    from tracegrade.compare.pairing import Change, Pairs
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
_CHANGES_IN_TABLE = 5  # of a rule each way; JSON has more


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
    for note in found.all_notes:
        print_line(note)
    print_line(f"{sum_text(found)}: {verdict_counts(found)}.")


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
            for change in changes[:_CHANGES_IN_TABLE]:
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


_MOST_RULES = 100
_CHANGES_IN_MARKDOWN = 10
_WORST_FIRST = ("worse", "worse_within_margin", "cannot_tell", "not_worse", "better")


def print_report(output_format: str, found: "Comparison", links: "Links") -> None:
    """Print a comparison: as tables, as one JSON object, or as a report."""
    if output_format == "json":
        print_json([found.to_json()])
    elif output_format == "table":
        print_comparison(found, links)
    else:
        print_lines(comparison_report(output_format, found, links))


def comparison_report(output_format: str, found: "Comparison", links: "Links") -> str:
    """All of `found` as ``junit``, ``sarif`` or ``markdown``."""
    match output_format:
        case "junit":
            return _junit(found)
        case "sarif":
            return _sarif(found)
        case _:
            return _markdown(found, links)


def _title(found: "Comparison") -> str:
    return f"{found.b} against {found.a}"


def _message(rule: "ComparedRule") -> str:
    a, b, difference, interval, p, adjusted, results = number_cells(rule.whole, rule.adjusted_p)
    if not difference:
        return f"{verdict_text(rule.verdict)}: {rule.whole.found.reason}"
    numbers = f"A {a}, B {b}, difference {difference} points ({interval}), p {p} (adjusted {adjusted}), {results}"
    return f"{verdict_text(rule.verdict)}: {numbers}"


def _junit(found: "Comparison") -> str:
    failed = sum(map(found.is_failure, found.rules))
    unknown = sum(rule.verdict == "cannot_tell" for rule in found.rules)
    unread = 1 if found.unread else 0
    numbers = {"tests": len(found.rules) + unread, "failures": failed, "errors": 0, "skipped": unknown + unread}
    counts = {name: str(number) for name, number in numbers.items()}
    suites = ElementTree.Element("testsuites", {"name": xml_text(_title(found)), **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "compare", **counts})
    for rule in found.rules:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "compare", "name": rule.rule_id})
        properties = ElementTree.SubElement(case, "properties")
        for key, value in _numbers(rule).items():
            ElementTree.SubElement(properties, "property", {"name": key, "value": f"{value}"})
        element = "failure" if found.is_failure(rule) else "skipped" if rule.verdict == "cannot_tell" else None
        if element is not None:
            ElementTree.SubElement(case, element, {"message": xml_text(_message(rule))})
    if found.unread:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "compare", "name": "files"})
        ElementTree.SubElement(case, "skipped", {"message": xml_text(found.unread)})
    return junit_document(suites)


def _numbers(rule: "ComparedRule") -> dict[str, Any]:
    """What can be said of a rule as a number or a word."""
    flat = {key: value for key, value in rule.to_json().items() if isinstance(value, str | float | int) and value != ""}
    rate_a, rate_b = rule.whole.rates
    rates = {"pass_rate_a": rate_a, "pass_rate_b": rate_b}
    return flat | {key: value for key, value in rates.items() if value is not None}


def _sarif(found: "Comparison") -> str:
    rules = [
        {
            "id": rule.rule_id,
            "shortDescription": {"text": rule.rule_id},
            "defaultConfiguration": {"level": _sarif_level(rule)},
            "properties": _numbers(rule),
        }
        for rule in found.rules
    ]
    results = [
        {
            "ruleId": rule.rule_id,
            "level": _sarif_level(rule),
            "message": {"text": f"{_title(found)}: {_message(rule)}"},
            "locations": [_location(rule.rule_id, found.rule_paths.get(rule.rule_id))],
            "partialFingerprints": {"tracegrade/v1": f"{rule.rule_id}/compare"},
        }
        for rule in found.rules
        if found.is_failure(rule)
    ]
    unread = [{"level": "warning", "message": {"text": found.unread}}] if found.unread else []
    return sarif_log(rules, results, unread)


def _location(rule_id: str, path: str | None) -> dict[str, Any]:
    """Where a rule is: its file, where that is known."""
    named = {"logicalLocations": [{"name": rule_id, "fullyQualifiedName": f"compare/{rule_id}"}]}
    return named if path is None else named | {"physicalLocation": file_location(path)}


def _sarif_level(rule: "ComparedRule") -> str:
    return {str(level): word for level, word in SARIF_LEVELS.items()}.get(rule.level, "warning")


def _markdown(found: "Comparison", links: "Links") -> str:
    parts = [
        f"## {sum_text(found)}: {verdict_counts(found)}",
        f"B {as_code(found.b)} against A {as_code(found.a)}",
    ]
    ordered = sorted(found.rules, key=lambda rule: _WORST_FIRST.index(rule.verdict))
    columns = ["rule", "family", *NUMBERS, "verdict"]
    rows = [
        [as_markdown(rule.rule_id), rule.family, *number_cells(rule.whole, rule.adjusted_p), _verdict(rule)]
        for rule in ordered[:_MOST_RULES]
    ]
    parts.append(markdown_table(columns, rows) if rows else "No rule judged both sides.")
    if len(ordered) > _MOST_RULES:
        parts.append(f"... and {len(ordered) - _MOST_RULES} more rules; --format json has all.")
    parts += [text] if (text := _left_out(found)) else []
    parts += [_changes(rule, rule.whole.found.pairs, links) for rule in ordered[:_MOST_RULES] if _changed(rule)]
    if found.measures:
        taken = [[measure_name(name), *measure_cells(of)] for name, of in found.measures.items()]
        parts.append(_folded("What traces took", markdown_table(["each trace", *TAKEN], taken)))
    if found.behaviour is not None:
        parts += [_folded("What is called differently", text) for text in _behaviour(found.behaviour, links)]
    return "\n\n".join(parts)


def _verdict(rule: "ComparedRule") -> str:
    word = verdict_text(rule.verdict)
    word = f"**{word}**" if rule.verdict.startswith("worse") else word
    word += f": {rule.whole.found.reason}" if rule.whole.found.reason else ""
    return word if rule.verdict_alone == rule.verdict else f"{word}; alone {verdict_text(rule.verdict_alone)}"


def _left_out(found: "Comparison") -> str:
    lines = [f"- {as_markdown(rule_id)}: {reason}" for rule_id, reason in found.left_out.items()]
    return "\n".join(
        [*lines, *(f"- {as_markdown(note)}" for note in (*needs(found), *pair_notes(found), *found.all_notes))]
    )


def _changed(rule: "ComparedRule") -> bool:
    pairs = rule.whole.found.pairs
    return pairs is not None and bool(pairs.became_worse or pairs.became_better)


def _changes(rule: "ComparedRule", pairs: "Pairs | None", links: "Links") -> str:
    assert pairs is not None, "only rules with pairs have changes"
    ways = [("worse", pairs.became_worse, pairs.worse), ("better", pairs.became_better, pairs.better)]
    lines = [line for way, changes, number in ways for line in _way(way, changes, number, links)]
    title = (
        f"{as_markdown(rule.rule_id)}: {pairs.worse} worse, {pairs.better} better of {pairs.count} pairs by {pairs.by}"
    )
    return _folded(title, "\n".join(lines))


def _way(way: str, changes: "Sequence[Change]", number: int, links: "Links") -> Iterator[str]:
    for change in changes[:_CHANGES_IN_MARKDOWN]:
        case = f" {as_markdown(change.case)}:" if change.case else ""
        a, b = _link(change.trace_a, links), _link(change.trace_b, links)
        yield f"- {way}:{case} {a if change.trace_a == change.trace_b else f'{a}, on B {b}' if a else b}"
    if number > _CHANGES_IN_MARKDOWN:
        yield f"- {way}: ... and {number - _CHANGES_IN_MARKDOWN} more"


def _link(trace_id: str | None, links: "Links") -> str:
    return link_markdown(trace_id, links) if trace_id else ""  # a saved baseline names none


def _behaviour(found: "Behaviour", links: "Links") -> Iterator[str]:
    tools = [
        [
            as_markdown(tool.tool),
            tool.change,
            f"{tool.share_a:.1%}",
            f"{tool.share_b:.1%}",
            f"{tool.calls_a:.3g} / {tool.calls_b:.3g}",
            link_markdown(tool.trace_b or tool.trace_a, links),
        ]
        for tool in tools_to_show(found)
    ]
    if tools:
        yield markdown_table(["tool", "", "traces A", "traces B", "calls a trace, A / B", "example"], tools)
    orders = [
        [as_markdown(order_text(order)), f"{order.share_a:.1%}", f"{order.share_b:.1%}"]
        for order in orders_to_show(found)
    ]
    if orders:
        yield markdown_table(["order of calls", "traces A", "traces B"], orders)
    if found.arguments:
        rows = [[as_markdown(item.tool), as_markdown(item.argument), news_of(item)] for item in found.arguments]
        yield markdown_table(["tool", "argument", "new on B"], rows)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
