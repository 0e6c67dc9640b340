"""The view that an address describes: time range and filters. Equal addresses show the same."""

import time
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tracegrade.queries.parameters import SeriesQuery, parameters_of
from tracegrade.queries.times import time_of
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import LIVE, MINUTE_NS, OUTCOMES
from tracegrade.store.tallies import DIMENSIONS, Dimension, names_of

# The ranges: minutes, minutes of a step, and its name.
RANGES: dict[str, tuple[int, int, str]] = {
    "1h": (60, 2, "the last hour"),
    "6h": (360, 10, "the last 6 hours"),
    "24h": (1440, 60, "the last 24 hours"),
    "7d": (10080, 360, "the last 7 days"),
    "30d": (43200, 1440, "the last 30 days"),
}
DEFAULT_RANGE = "24h"
# The filters of results.
FILTERS = (*(item.name for item in parameters_of(SeriesQuery)), "tenant")

# Names in addresses of lists that filter nothing.
HOW_LISTED = ("columns", "sort")
_OF_RESULTS = {item.name for item in fields(ResultFilter)}

_MAX_STEPS = 48
_STEPS = (1, 2, 5, 10, 30, 60, 120, 360, 720, 1440, 10080, 43200)


@dataclass(frozen=True, slots=True)
class Window:
    """From ``since_ns`` up to ``until_ns``, in steps of ``step_minutes`` that begin at multiples of their length.

    ``name`` is a key of `RANGES`; "" for fixed times.
    """

    since_ns: int
    until_ns: int
    step_minutes: int
    name: str

    @property
    def steps(self) -> range:
        """The numbers of the steps: a step begins at its number times its length."""
        step_ns = self.step_minutes * MINUTE_NS
        return range(self.since_ns // step_ns, -(-self.until_ns // step_ns))

    def charted(self, begins_ns: int | None, now_ns: int) -> "Window":
        """The part that a chart shows: from the first data up to now, in steps that fit that time.

        `begins_ns` is None without data.
        """
        if begins_ns is None or begins_ns < self.since_ns + self.step_minutes * MINUTE_NS:
            return self
        until_ns = min(self.until_ns, now_ns)
        step = _step_for((until_ns - begins_ns) // MINUTE_NS + 1)
        step_ns = step * MINUTE_NS
        return replace(
            self,
            since_ns=begins_ns // step_ns * step_ns,
            until_ns=-(-until_ns // step_ns) * step_ns,
            step_minutes=step,
        )

    @property
    def text(self) -> str:
        """The range in words."""
        if self.name:
            return RANGES[self.name][2]
        return f"{_minute_text(self.since_ns)} to {_minute_text(self.until_ns)} UTC"


@dataclass(frozen=True, slots=True)
class View:
    """A path with its window and filters; ``chosen`` are the filters that are set."""

    path: str
    window: Window
    chosen: dict[str, str]

    @property
    def run(self) -> str:
        """The run that is shown: unless the address names another, what was judged live."""
        return self.chosen.get("run", LIVE)

    @property
    def span_text(self) -> str:
        """Of what time, or of which run, in words: ``in the last hour``."""
        return f"in {self.window.text}" if self.run == LIVE else f"in run {self.run}"

    @property
    def result_filter(self) -> ResultFilter:
        """The filter of the results shown; of a run, they are those of any time."""
        since_ns, until_ns = (self.window.since_ns, self.window.until_ns) if self.run == LIVE else (None, None)
        chosen: dict[str, Any] = {name: value for name, value in self.chosen.items() if name in _OF_RESULTS}
        return ResultFilter(since_ns=since_ns, until_ns=until_ns, with_backfilled=True, **chosen)

    def address(self, path: str | None = None, **changed: str | None) -> str:
        """The address of this view with some filters changed; None drops one. ``range`` chooses another range."""
        window = self.window
        query = {"range": window.name} if window.name and window.name != DEFAULT_RANGE else {}
        if not window.name:
            query = {"since": iso_text(window.since_ns), "until": iso_text(window.until_ns)}
        if (chosen := changed.pop("range", None)) is not None:
            query = {} if chosen == DEFAULT_RANGE else {"range": chosen}
        query |= {name: value for name, value in (self.chosen | changed).items() if value}
        return (self.path if path is None else path) + (f"?{urlencode(query)}" if query else "")

    def section(self, path: str) -> str:
        """The address of another section over the same time, without filters."""
        return replace(self, path=path, chosen={}).address()

    @property
    def filtered(self) -> bool:
        """Whether filters are set beside the run."""
        return bool(self.chosen.keys() - {"run", *HOW_LISTED})

    @property
    def cleared(self) -> str:
        """The address without filters, of the same time and run."""
        return self.address(**dict.fromkeys(self.chosen.keys() - {"run", *HOW_LISTED}))

    @property
    def fixed(self) -> str:
        """The address with fixed times, which still shows the same tomorrow."""
        return replace(self, window=replace(self.window, name="")).address()


def view_of(request: Request, filters: Collection[str] = ()) -> View:
    """The view that `request` asks for.

    Args:
        request: its address describes the view.
        filters: the filters of the page; others in the address change nothing, and are not shown as chosen.

    Raises:
        HTTPException: 400, a parameter that cannot be read: which, what was found and what was expected.
    """
    parameters = request.query_params
    chosen = {name: value for name in filters if (value := parameters.get(name, "").strip())}
    if "columns" in chosen:  # a form sends each on its own
        chosen["columns"] = ",".join(parameters.getlist("columns"))
    if (outcome := chosen.get("outcome")) is not None and outcome not in OUTCOMES:
        raise HTTPException(400, f"outcome: expected one of {', '.join(OUTCOMES)}, found {outcome!r}")
    window = _window(parameters.get("range", ""), parameters.get("since"), parameters.get("until"))
    return View(request.scope["path"], window, chosen)


def number_of(request: Request, name: str, otherwise: int, most: int | None = None) -> int:
    """The number that parameter `name` of the address gives, such as that of a trace; `otherwise` without it.

    It is `most` at most, and without that `otherwise`.

    Raises:
        HTTPException: 400, it is not a number.
    """
    text = request.query_params.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise HTTPException(400, f"{name}: expected a number, found {text[:100]!r}")
    return min(int(text), otherwise if most is None else most)


def _window(name: str, since: str | None, until: str | None) -> Window:
    now_ns = time.time_ns()
    if since:
        since_ns, until_ns = _time_ns("since", since), _time_ns("until", until) if until else now_ns
        if until_ns <= since_ns:
            raise HTTPException(400, f"until: expected a time after since, {since}, found {until!r}")
        minutes = (until_ns - since_ns) // MINUTE_NS
        return Window(since_ns, until_ns, _step_for(minutes), "")
    name = name or DEFAULT_RANGE
    if name not in RANGES:
        raise HTTPException(400, f"range: expected one of {', '.join(RANGES)}, found {name!r}")
    minutes, step, _ = RANGES[name]
    step_ns = step * MINUTE_NS
    until_ns = -(-now_ns // step_ns) * step_ns
    return Window(until_ns - minutes * MINUTE_NS, until_ns, step, name)


def _step_for(minutes: int) -> int:
    return next((step for step in _STEPS if minutes <= step * _MAX_STEPS), _STEPS[-1])


def _time_ns(name: str, text: str) -> int:
    try:
        return time_of(text)
    except ValueError as error:
        raise HTTPException(400, f"{name}: {error}") from None


def iso_text(time_ns: int) -> str:
    """A time as it is written in an address."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _minute_text(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M")


def filter_choices(connection: Connection, rule_set: RuleSet, run: str = LIVE) -> dict[str, list[str]]:
    """Filter name -> its values: rules in force and rules with results, and the names in results of `run`."""
    found = {name: names_of(connection, DIMENSIONS.get(name, cast(Dimension, name)), run=run) for name in FILTERS}
    found["rule"] = sorted({rule.id for rule in rule_set.rules}.union(found["rule"]))
    return found if len(found["tenant"]) > 1 else {name: names for name, names in found.items() if name != "tenant"}
