"""``/compare``: two sides of what is stored, rule by rule, and what changed. The address says all of it, to share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from tracegrade.web.charts.svg import line
from tracegrade.web.own_process import RETRY_S, Busy
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of

_HEIGHT = 24.0
_END = 5.0  # half the height of the bar at each end
_LEAST = 0.01
_ROOM = 1.08


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """From what to what the drawings of all rules go, and where the margin is."""

    reach: float
    margin: float

    def x(self, difference: float) -> float:
        """The place of a difference, in per cent of the width; zero is in the middle."""
        return 50 + 50 * max(-1.0, min(1.0, difference / self.reach))


def scale_for(rules: Iterable[ComparedRule], margin: float) -> IntervalScale:
    """A scale that shows every interval of `rules`."""
    found = [rule.whole.found.difference for rule in rules]
    ends = [abs(end) for difference in found if difference is not None for end in (difference.low, difference.high)]
    return IntervalScale(_ROOM * max([_LEAST, margin, *ends]), margin)


def interval_chart(difference: Difference, scale: IntervalScale) -> Markup:
    """One difference."""
    low, value, high = (scale.x(end) for end in (difference.low, difference.value, difference.high))
    middle = _HEIGHT / 2
    drawn = [
        line("zero", "50%", "50%", 0, _HEIGHT),
        line("margin", f"{scale.x(-scale.margin):.2f}%", f"{scale.x(-scale.margin):.2f}%", 0, _HEIGHT),
        line("interval", f"{low:.2f}%", f"{high:.2f}%", middle, middle),
        *(line("interval", f"{end:.2f}%", f"{end:.2f}%", middle - _END, middle + _END) for end in (low, high)),
        f'<circle class="dot" cx="{value:.2f}%" cy="{middle:g}" r="3.5"/>',
    ]
    said = (
        f"Difference {points(difference.value)} points, 95 % interval {points(difference.low)} to "
        f"{points(difference.high)}; the margin is at {points(-scale.margin)}"
    )
    return Markup('<svg class="difference" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        f"{_HEIGHT:g}", said, Markup("".join(drawn))
    )


_FILTERS = parameters_of(SidesQuery)
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
    with sources.store() as connection:
        choices = _side_choices(connection)
    values: dict[str, Any] = {
        "query": query,
        "choices": choices,
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


def _side_choices(connection: Connection) -> list[str]:
    """What a side may be called."""
    kinds: tuple[Dimension, ...] = ("release", "agent")
    of_live = [f"{kind}:{name}" for kind in kinds for name in names_of(connection, kind)]
    return ["live", *reversed(run_names(connection)), *of_live][:_MOST_NAMES]


def _side_address(side: Side, tenant: str) -> str:
    """The page of what a side is: its run, or its traces."""
    chosen = side.result_filter
    if chosen.run != "live":
        return address(f"/runs/{chosen.run}", tenant=tenant)
    return address("/traces", tenant=tenant, release=chosen.release, agent=chosen.agent, service=chosen.service)


def _rows(found: Comparison, rule_set: RuleSet) -> Iterator[RuleRow]:
    scale = scale_for(found.rules, found.margin)
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
