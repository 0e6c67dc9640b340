"""The two sides of a comparison, as people name them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from tracegrade.compare.store.sides import runs_with_results, side_series
from tracegrade.document.problem import did_you_mean
from tracegrade.model.errors import TraceGradeError
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Run, stored_run
from tracegrade.store.schema import BACKFILL, LIVE, WHOLE_RULE
from tracegrade.store.tallies import Dimension, names_of

_FORMS = "expected release:NAME, agent:NAME, model:NAME, live, or a run's name, each with @FROM..TO after it if needed"
_FIELDS: dict[str, Dimension] = {"release": "release", "agent": "agent"}


class CompareError(TraceGradeError):
    """Two sides that cannot be compared; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: ``text`` is its name as it was given; of a model, only what that model did counts."""

    text: str
    result_filter: ResultFilter
    model: str | None = None


def side_of(text: str, shared: ResultFilter, time_of: Callable[[str], int]) -> Side:
    """The side that `text` names.

    Args:
        text: ``release:1.4.2``, ``agent:NAME``, ``model:NAME``, ``live`` or another run's name; with ``@FROM..TO``,
            only traces first received in that time, of which either end may be left out.
        shared: a filter of both sides.
        time_of: the time that a text names, in ns since 1970 UTC.

    Raises:
        CompareError: no side has this form, or the filter asks for something else.
    """
    name, at, window = text.rpartition("@")
    if not (at and ".." in window):
        name, window = text, ""
    found = _within(text, shared, window, time_of) if window else shared
    kind, colon, value = name.partition(":")
    if colon and kind in ("release", "agent", "model"):
        if not value:
            raise CompareError(f"{text!r}: expected a name after '{kind}:'")
        if kind == "model":
            return Side(text, found, value)
        if getattr(shared, kind) is not None:
            raise CompareError(f"{text!r}: the {kind} of both sides is chosen already; leave one of the two out")
        if kind == "release":
            return Side(text, replace(found, release=value))
        return Side(text, replace(found, agent=value))
    if not name:
        raise CompareError(f"{text!r} names no side; {_FORMS}")
    return Side(text, replace(found, run=name))


def named_side(text: str, time_of: Callable[[str], int], shared: ResultFilter | None = None) -> Side:
    """As `side_of`, of a text that a person gave; `time_of` may raise ValueError.

    Raises:
        CompareError: also for a time that is none.
    """
    try:
        return side_of(text, ResultFilter() if shared is None else shared, time_of)
    except ValueError as error:
        raise CompareError(str(error)) from None


def _within(text: str, shared: ResultFilter, window: str, time_of: Callable[[str], int]) -> ResultFilter:
    since, _, until = window.partition("..")
    if shared.since_ns is not None or shared.until_ns is not None:
        raise CompareError(f"{text!r}: since and until name another time for both sides; leave one of the two out")
    found = replace(shared, since_ns=time_of(since) if since else None, until_ns=time_of(until) if until else None)
    if found.since_ns is not None and found.until_ns is not None and found.since_ns >= found.until_ns:
        raise CompareError(f"{text!r}: the time ends before it begins")
    return found


def check_different(a: Side, b: Side) -> None:
    """Refuse sides that are the same.

    Raises:
        CompareError: they are.
    """
    if (a.result_filter, a.model) == (b.result_filter, b.model):
        raise CompareError(f"A and B are the same, {a.text!r}: name two different sides")


def check_sides(connection: Connection, a: Side, b: Side) -> None:
    """Refuse sides that cannot be compared.

    Raises:
        CompareError: both are the same, or one has no result of any rule.
    """
    check_different(a, b)
    for side in (a, b):
        check_side(connection, side)


def check_side(connection: Connection, side: Side) -> None:
    """Refuse a side that has no result of any rule.

    Raises:
        CompareError: it has none, or only what was judged afterwards, which is compared with nothing.
    """
    if side.result_filter.run == BACKFILL:
        raise CompareError(
            f"{side.text}: it is what 'rules backtest --store' judged afterwards, and no run of its own; 'tracegrade "
            "rules backtest' compares a changed rule with what was judged live"
        )
    if not side_series(connection, side.result_filter):
        raise CompareError(_why_empty(connection, side))


def stored_runs_of(connection: Connection, side: Side) -> list[Run]:
    """What is known of the run that a side is, of each tenant; nothing of what was judged live."""
    chosen = side.result_filter
    tenants = [chosen.tenant] if chosen.tenant is not None else names_of(connection, "tenant", run=chosen.run)
    found = (stored_run(connection, tenant, chosen.run) for tenant in tenants)
    return [run for run in found if run is not None]


def nothing_in(connection: Connection, side: Side) -> CompareError:
    """The error of a side whose time, or model, has no result."""
    if any(run.emptied for run in stored_runs_of(connection, side)):
        return CompareError(f"{side.text}: retention has deleted its traces; compare rates alone, as counted")
    what = f"model {side.model!r} has no result" if side.model is not None else "no result in this time"
    return CompareError(f"{side.text}: {what}; 'tracegrade results stats' shows what there is")


def _why_empty(connection: Connection, side: Side) -> str:
    chosen, known = side.result_filter, runs_with_results(connection)
    if chosen.run == LIVE and LIVE not in known:
        runs = f"; stored runs are {', '.join(known[:12])}, and are named as they are" if known else ""
        return f"{side.text}: nothing was judged live yet{runs}"
    if chosen.run not in known:
        of_live = [
            f"{name}:{chosen.run}" for name, column in _FIELDS.items() if chosen.run in names_of(connection, column)
        ]
        meant = f"; did you mean {of_live[0]!r}?" if of_live else did_you_mean(chosen.run, known)
        return f"no run {chosen.run!r} in the store{meant}"
    for name, column in _FIELDS.items():
        value, names = getattr(chosen, name), names_of(connection, column, run=chosen.run)
        if value is not None and value not in names:
            return f"{side.text}: no result of {name} {value!r} in the store{did_you_mean(value, names)}"
    asked = {"rule": chosen.rule, "service": chosen.service, "tenant": chosen.tenant, "evaluation": chosen.evaluation}
    filters = ", ".join(f"{name} {value!r}" for name, value in asked.items() if value not in (None, WHOLE_RULE))
    found = f"{side.text}: no result" + (f" of {filters}" if filters else "")
    return f"{found}; 'tracegrade results stats' shows what there is"
