"""``/compare``: two sides of what is stored, rule by rule, and what changed. The address says all of it, to share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.compare.comparison import ComparedRule, Comparison
from tracegrade.compare.pairing import Change
from tracegrade.compare.query import SidesQuery
from tracegrade.compare.shares import Difference
from tracegrade.compare.sides import CompareError, Side
from tracegrade.compare.verdict import Verdict
from tracegrade.compare.web.comparing import COMPARING, Asked
from tracegrade.compare.words import (
    calls_text,
    measure_cells,
    measure_name,
    needs,
    news_of,
    number_cells,
    order_text,
    orders_to_show,
    pair_notes,
    points,
    sum_text,
    tools_to_show,
    verdict_counts,
    verdict_text,
)
from tracegrade.queries.parameters import parameters_of
from tracegrade.queries.times import time_of
from tracegrade.rule.gate import MARGIN
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.runs import run_names
from tracegrade.store.tallies import Dimension, names_of
from tracegrade.web.addresses import address
from tracegrade.web.charts.svg import line, text
from tracegrade.web.own_process import RETRY_S, Busy
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of

_HEIGHT = 24.0
_END = 5.0  # half the height of the bar at each end
_LEAST = 0.01
_ROOM = 1.08
_MOST_TIMES = 4  # an interval this many times as wide as half of them is cut off, so that these stay readable


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """From what to what the drawings of all rules go, and where the margin is; what reaches further is cut off."""

    reach: float
    margin: float

    def x(self, difference: float) -> float:
        """The place of a difference, in per cent of the width; zero is in the middle."""
        return 50 + 50 * max(-1.0, min(1.0, difference / self.reach))


def scale_for(found: Iterable[Difference], margin: float) -> IntervalScale:
    """A scale that shows the intervals of all of them, but for those that would make the others unreadable."""
    reaches = [max(abs(difference.low), abs(difference.high)) for difference in found]
    reach = min(max(reaches), _MOST_TIMES * max(median_low(reaches), margin)) if reaches else 0.0
    return IntervalScale(_ROOM * max(_LEAST, margin, reach), margin)


def interval_chart(difference: Difference, scale: IntervalScale) -> Markup:
    """One difference; an end that is cut off is an arrow with its number."""
    low, value, high = (scale.x(end) for end in (difference.low, difference.value, difference.high))
    middle = _HEIGHT / 2
    drawn = [
        line("zero", "50%", "50%", 0, _HEIGHT),
        line("margin", f"{scale.x(-scale.margin):.2f}%", f"{scale.x(-scale.margin):.2f}%", 0, _HEIGHT),
        line("interval", f"{low:.2f}%", f"{high:.2f}%", middle, middle),
        *_end(difference.low, scale),
        *_end(difference.high, scale),
    ]
    if abs(difference.value) <= scale.reach:
        drawn.append(f'<circle class="dot" cx="{value:.2f}%" cy="{middle:g}" r="3.5"/>')
    said = (
        f"Difference {points(difference.value)} points, 95 % interval {points(difference.low)} to "
        f"{points(difference.high)}; the margin is at {points(-scale.margin)}"
    )
    return Markup('<svg class="difference" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_HEIGHT:g}", said, Markup("".join(drawn))
    )


def _end(end: float, scale: IntervalScale) -> Iterator[str]:
    x, middle = scale.x(end), _HEIGHT / 2
    if abs(end) <= scale.reach:
        yield line("interval", f"{x:.2f}%", f"{x:.2f}%", middle - _END, middle + _END)
    elif end > 0:
        yield text("cut", 100, middle - _END, "end", f"{points(end)} ▸")
    else:
        yield text("cut", 0, middle - _END, "start", f"◂ {points(end)}".replace("-", "\N{MINUS SIGN}"))


_FILTERS = parameters_of(SidesQuery)
_TIMES = {
    "24h..": "last 24 hours",
    "48h..24h": "the 24 hours before",
    "7d..": "last 7 days",
    "14d..7d": "the 7 days before",
    "30d..": "last 30 days",
    "60d..30d": "the 30 days before",
}
_PARAMETERS = ("a", "b", *(item.name for item in _FILTERS), "margin", "full")
_WORST_FIRST: tuple[Verdict, ...] = ("worse", "worse_within_margin", "cannot_tell", "not_worse", "better")
_SIGNS: dict[Verdict, tuple[str, str]] = {
    "worse": ("✗", "bad"),
    "worse_within_margin": ("✗", "warn"),
    "better": ("✓", "good"),
    "not_worse": ("✓", ""),
    "cannot_tell": ("?", "warn"),
}
_MOST_NAMES = 500
_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule, or one of its evaluations: its numbers as text, and its drawing."""

    rule: ComparedRule
    cells: list[str]
    chart: Markup
    sign: str
    kind: str
    verdict: str
    alone: str
    is_in_force: bool
    evaluations: list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Way:
    """The pairs of a rule that changed in one way, the first of them; ``number`` is how many there are."""

    name: str
    number: int
    changes: list[Change] = field(default_factory=list)


def show(request: Request) -> Response:
    """The form, and once both sides are chosen what came of it."""
    sources = sources_of(request)
    query = {name: value for name in _PARAMETERS if (value := request.query_params.get(name, "").strip())}
    for side in ("a", "b"):
        if side in query and (time := request.query_params.get(f"{side}_time")):
            query[side] += f"@{time}"
    with sources.store() as connection:
        choices = _side_choices(connection)
    values: dict[str, Any] = {
        "query": query,
        "chosen": {side: _parts(query.get(side, "")) for side in ("a", "b")},
        "choices": choices,
        "times": _TIMES,
        "rules": [rule.id for rule in sources.rule_set().rules],
    }
    values |= {"full": "full" in query, "in_full": address("/compare", **query | {"full": "1"})}
    title = "Compare"
    if not ("a" in query and "b" in query):
        return page(request, "compare.html", title=title, found=None, problem="", **values)
    asked = _asked(query)
    try:
        a, b = asked.sides()
        found = COMPARING.compare(sources, asked, token_of(request))
    except CompareError as error:
        return page(request, "compare.html", title=title, found=None, problem=str(error), status=409, **values)
    except Busy as error:
        answer = page(request, "compare.html", title=title, found=None, problem=str(error), status=503, **values)
        answer.headers["Retry-After"] = str(RETRY_S)
        return answer
    return page(
        request,
        "compare.html",
        title=f"{found.b} against {found.a}",
        found=found,
        problem="",
        tenant=tenant_of(request),
        run_a=a.result_filter.run,
        run_b=b.result_filter.run,
        side_addresses=[_side_address(side, tenant_of(request)) for side in (a, b)],
        sum=sum_text(found),
        counts=verdict_counts(found),
        rows=list(_rows(found, sources.rule_set())),
        changes=[(rule.rule_id, rule.whole.found.pairs, _ways(rule)) for rule in found.rules if _ways(rule)],
        measures=[(measure_name(name), _signed(measure_cells(of))) for name, of in (found.measures or {}).items()],
        calls_text=calls_text,
        tools=tools_to_show(found.behaviour) if found.behaviour else [],
        orders=[(order, order_text(order)) for order in orders_to_show(found.behaviour)] if found.behaviour else [],
        arguments=[(item, news_of(item)) for item in found.behaviour.arguments] if found.behaviour else [],
        notes=[*pair_notes(found), *needs(found), *found.notes],
        **values,
    )


def _asked(query: dict[str, str]) -> Asked:
    """What the address asks for.

    Raises:
        HTTPException: 400, a parameter that cannot be read.
    """
    chosen: dict[str, Any] = {item.name: query.get(item.name) for item in _FILTERS}
    for item in _FILTERS:
        if item.kind == "time" and item.name in query:
            try:
                chosen[item.name] = time_of(query[item.name])
            except ValueError as error:
                raise HTTPException(400, f"{item.name}: {error}.") from None
    return Asked(
        query["a"], query["b"], SidesQuery(**chosen).filter(), _margin(query.get("margin")), False, "full" in query
    )


def _margin(text: str | None) -> float:
    """The margin, which the address has in points."""
    if text is None:
        return MARGIN
    try:
        margin = float(text) / 100
    except ValueError:
        margin = -1.0
    if not 0 <= margin <= 1:
        raise HTTPException(400, f"margin: expected points from 0 to 100, found {text[:100]!r}.")
    return margin


def _parts(side: str) -> tuple[str, str]:
    """The name of a side, and its time as the address has it: "7d.."; "" where it has none."""
    name, at, time = side.rpartition("@")
    return (name, time) if at and ".." in time else (side, "")


def _side_choices(connection: Connection) -> dict[str, list[tuple[str, str]]]:
    """What a side may be, by kind: its name in the address, and its name in the list."""
    kinds: tuple[Dimension, ...] = ("release", "agent")
    found = {f"{kind}s": [(f"{kind}:{name}", name) for name in names_of(connection, kind) if name] for kind in kinds}
    found["runs"] = [(name, name) for name in reversed(run_names(connection))]
    return {kind: names[:_MOST_NAMES] for kind, names in found.items() if names}


def _side_address(side: Side, tenant: str) -> str:
    """The page of what a side is: its run, or its traces."""
    chosen = side.result_filter
    if chosen.run != "live":
        return address(f"/runs/{chosen.run}", tenant=tenant)
    return address("/traces", tenant=tenant, release=chosen.release, agent=chosen.agent, service=chosen.service)


def _rows(found: Comparison, rule_set: RuleSet) -> Iterator[RuleRow]:
    differences = [rule.whole.found.difference for rule in found.rules]
    scale = scale_for([difference for difference in differences if difference is not None], found.margin)
    for rule in sorted(found.rules, key=lambda rule: _WORST_FIRST.index(rule.verdict)):
        sign, kind = _SIGNS[rule.verdict]
        yield RuleRow(
            rule,
            _signed(number_cells(rule.whole, rule.adjusted_p)),
            _chart(rule, scale),
            sign,
            kind,
            verdict_text(rule.verdict),
            "" if rule.verdict_alone == rule.verdict else f"alone {verdict_text(rule.verdict_alone)}",
            rule_set.rule(rule.rule_id) is not None,
            [(name, _signed(number_cells(compared))) for name, compared in rule.evaluations.items()],
        )


def _signed(cells: list[str]) -> list[str]:
    """With a real minus sign where a number begins with one."""
    return [
        " ".join(f"\N{MINUS SIGN}{word[1:]}" if word.startswith("-") else word for word in cell.split(" "))
        for cell in cells
    ]


def _chart(rule: ComparedRule, scale: IntervalScale) -> Markup:
    difference = rule.whole.found.difference
    return Markup("") if difference is None else interval_chart(difference, scale)


def _ways(rule: ComparedRule) -> list[Way]:
    pairs = rule.whole.found.pairs
    if pairs is None:
        return []
    ways = [
        Way("worse", pairs.worse, list(pairs.became_worse[:_MOST_SHOWN])),
        Way("better", pairs.better, list(pairs.became_better[:_MOST_SHOWN])),
    ]
    return [way for way in ways if way.changes]
