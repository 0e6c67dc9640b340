"""The parameters of reads: a dataclass for each, from which options, operations and filters of pages are made.

The type of a parameter is annotated with its meaning: one sentence without its full stop. A filter that is not set is
None.

Nothing here imports a store or Pydantic: commands read it to show their help.
"""

from collections.abc import Iterator
from dataclasses import Field, asdict, dataclass, fields
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from tracegrade.model.evaluation import LIVE, Outcome

if TYPE_CHECKING:
    from tracegrade.store.result_filter import ResultFilter

Kind: TypeAlias = Literal["name", "rule", "trace id", "session", "tenant", "run", "time", "flag", "choice"]
"""What a parameter is: how it is written, and which values it takes. Of ``choice``, its type says which."""


class Is(NamedTuple):
    """The kind of a type that its values do not show."""

    kind: Kind


RuleId: TypeAlias = Annotated[str, Is("rule")]
TraceId: TypeAlias = Annotated[str, Is("trace id")]
Session: TypeAlias = Annotated[str, Is("session")]
Tenant: TypeAlias = Annotated[str, Is("tenant")]
Run: TypeAlias = Annotated[str, Is("run")]
Time: TypeAlias = Annotated[int, Is("time")]

_STORED_AS = {"since": "since_ns", "until": "until_ns"}
_NO_FILTERS = ("by", "step")


class Parameter(NamedTuple):
    """One parameter.

    Attributes:
        name: in code, in options and in addresses.
        kind: as in `Kind`.
        choices: the values that a ``choice`` can have.
        meaning: one sentence without its full stop; "" where the kind says it.
        default: its value where it is not given; None for a filter that is not set.
    """

    name: str
    kind: Kind
    choices: tuple[str, ...]
    meaning: str
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuery:
    """The parameters of a read; all that are set must be met. Times are ns since 1970 UTC, end excluded."""

    def filter(self, **more: Any) -> "ResultFilter":
        """The filter of the store, with `more` fields of it that are no parameters; ids must be whole."""
        from tracegrade.store.result_filter import ResultFilter  # not needed for help

        asked = asdict(self)
        if (trace_id := asked.get("trace_id")) is not None:
            asked["trace_id"] = bytes.fromhex(trace_id)
        stored = {_STORED_AS.get(name, name): value for name, value in asked.items()}
        return ResultFilter(**{name: value for name, value in stored.items() if name not in _NO_FILTERS}, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery(StoreQuery):
    """Results by what they are counted by."""

    rule: Annotated[RuleId | None, "Only of this rule"] = None
    service: Annotated[str | None, "Only of this service"] = None
    agent: Annotated[str | None, "Only of this agent"] = None
    release: Annotated[str | None, "Only of this release"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsQuery(SeriesQuery):
    """Evaluations."""

    outcome: Annotated[Outcome | None, "Only with this outcome"] = None
    session: Annotated[Session | None, "Only of this session and of its traces"] = None
    trace_id: Annotated[TraceId | None, "Only of this trace"] = None
    since: Annotated[Time | None, "Only of traces first received at this time or later"] = None
    until: Annotated[Time | None, "Only of traces first received before this time"] = None
    run: Run = LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesQuery(SeriesQuery):
    """Sums of outcomes; without times, of all that is stored."""

    since: Annotated[Time | None, "Only of traces received at this time or later, to the minute"] = None
    until: Annotated[Time | None, "Only of traces received before this time, to the minute"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRatesQuery(RatesQuery):
    """Sums of outcomes; without times, of the last day."""

    since: Annotated[Time | None, "Only of traces received since, by the minute; a day ago if omitted"] = None
    until: Annotated[Time | None, "Only of traces received before, by the minute; now if omitted"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendsQuery(RecentRatesQuery):
    """Sums of outcomes over time, in steps."""

    by: Annotated[Literal["rule", "service", "agent", "release"], "What each line is of"] = "rule"
    step: Annotated[Literal["1m", "1h", "1d"], "The length of a step"] = "1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesQuery(StoreQuery):
    """Traces; rule, outcome, agent and release must be met by one evaluation of the trace."""

    service: Annotated[str | None, "Only of this service"] = None
    agent: Annotated[str | None, "Only with an evaluation of this agent"] = None
    release: Annotated[str | None, "Only with an evaluation of this release"] = None
    rule: Annotated[RuleId | None, "Only with an evaluation by this rule"] = None
    outcome: Annotated[Outcome | None, "Only with an evaluation of this outcome"] = None
    session: Annotated[Session | None, "Only of this session"] = None
    since: Annotated[Time | None, "Only first received at this time or later"] = None
    until: Annotated[Time | None, "Only first received before this time"] = None
    run: Run = LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsQuery(StoreQuery):
    """Sessions."""

    service: Annotated[str | None, "Only with traces of this service"] = None
    since: Annotated[Time | None, "Only with a trace first received at this time or later"] = None
    until: Annotated[Time | None, "Only with a trace first received before this time"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentsQuery(SeriesQuery):
    """Incidents: alerts that fired together; rule, service, agent and release must be met by one of its alerts."""

    firing: Annotated[bool, "Only what fires now"] = False
    since: Annotated[Time, "Only what fires now, or was resolved at this time or later"] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTracesQuery(StoreQuery):
    """Traces that are judged again, or by changed rules."""

    since: Annotated[Time | None, "Only traces first received at this time or later"] = None
    until: Annotated[Time | None, "Only traces first received before this time"] = None
    service: Annotated[str | None, "Only traces of this service"] = None
    agent: Annotated[str | None, "Only traces in which this agent ran"] = None
    release: Annotated[str | None, "Only traces of this release (service.version)"] = None
    tenant: Annotated[Tenant | None, "Only of this tenant"] = None


def parameters_of(query: type[StoreQuery]) -> tuple[Parameter, ...]:
    """The parameters of a class, in the order of its fields."""
    return tuple(_parameter(item) for item in fields(query))


def _parameter(item: "Field[Any]") -> Parameter:
    parts = [*_parts(item.type)]
    choices = tuple(value for part in parts if get_origin(part) is Literal for value in get_args(part))
    kinds: list[Kind] = [part.kind for part in parts if isinstance(part, Is)]
    kind: Kind = kinds[0] if kinds else "choice" if choices else "flag" if bool in parts else "name"
    return Parameter(
        item.name, kind, choices, next((part for part in parts if isinstance(part, str)), ""), item.default
    )


def _parts(written: Any) -> Iterator[Any]:
    """The types and notes that a type is made of."""
    if get_origin(written) in (Annotated, UnionType, Union):
        for part in get_args(written):
            yield from _parts(part)
    else:
        yield written
