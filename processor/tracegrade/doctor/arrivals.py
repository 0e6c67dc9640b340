"""Delays of spans by service, and the settings that would wait for them.

Read from the journal, which alone knows when each span came. For every trace: its longest quiet time while it looked
whole (what ``settle`` has to outlast), its longest quiet time while something was missing (``idle_timeout``), its age
(``max_age``), and how long after its first closing under the present settings a span still came (``reopen_for``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tracegrade.assemble.completion import NS_PER_S, Overrides
from tracegrade.assemble.settings import TracesSettings
from tracegrade.doctor.finding import Finding, Level, share
from tracegrade.document.duration import duration_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

# One trace in a hundred may be judged twice; waiting for the last of them would make all the others wait.
_QUANTILE = 0.99
_ENOUGH_TRACES = 20
_NICE_S = (
    1,
    2,
    3,
    5,
    10,
    15,
    20,
    30,
    60,
    120,
    180,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    4 * 3600,
    8 * 3600,
    86400,
    7 * 86400,
)


@dataclass(slots=True)
class _Arriving:
    """One trace while its spans arrive; times in ns."""

    first_ns: int
    last_ns: int
    service: str = ""
    rooted: bool = False
    ids: set[bytes] = field(default_factory=set)
    missing: set[bytes] = field(default_factory=set)
    overrides: int = 0
    quiet_whole_ns: int = 0
    quiet_open_ns: int = 0
    closed_ns: int | None = None  # first closing under the present settings

    @property
    def whole(self) -> bool:
        return self.rooted and not self.missing

    def add(self, span: Span) -> None:
        self.ids.add(span.span_id)
        self.missing.discard(span.span_id)
        if span.is_local_root:
            if not self.rooted:
                self.service = span.resource.service
            self.rooted = True
        elif span.parent_span_id not in self.ids:
            self.missing.add(span.parent_span_id)


@dataclass(slots=True)
class ServiceLateness:
    """When the spans of one service's traces came; durations in s, one for each trace, sorted."""

    service: str
    traces: int
    reopened: int  # traces of which a span came after their first closing
    incomplete: int  # traces in which something is still missing
    whole_s: list[float]
    open_s: list[float]
    age_s: list[float]
    late_s: list[float]  # of the reopened ones: the last span after the first closing


class Lateness:
    """Takes the spans of journal records in order; gives `ServiceLateness`."""

    def __init__(self, settings: TracesSettings) -> None:
        self._overrides = Overrides(settings)
        self._traces: dict[tuple[str, bytes], _Arriving] = {}

    def add(self, spans: Iterable[Span], tenant: str, received_ns: int) -> None:
        """Take in the spans of one record, received at `received_ns`."""
        by_trace: dict[tuple[str, bytes], list[Span]] = {}
        for span in spans:
            by_trace.setdefault((tenant, span.trace_id), []).append(span)
        for key, group in by_trace.items():
            trace = self._traces.get(key)
            if trace is None:
                trace = self._traces[key] = _Arriving(received_ns, received_ns, group[0].resource.service)
            elif all(span.span_id in trace.ids for span in group):
                continue  # sent again: nothing was late
            else:
                self._note_quiet(trace, received_ns)
            trace.last_ns = received_ns
            for span in group:
                trace.add(span)
            if self._overrides:
                trace.overrides |= self._overrides.applying(group)

    def _note_quiet(self, trace: _Arriving, received_ns: int) -> None:
        quiet_ns = received_ns - trace.last_ns
        if trace.whole:
            trace.quiet_whole_ns = max(trace.quiet_whole_ns, quiet_ns)
        else:
            trace.quiet_open_ns = max(trace.quiet_open_ns, quiet_ns)
        if trace.closed_ns is None:
            due_ns = self._overrides.deadlines(trace.overrides).due_ns(
                trace.first_ns, trace.last_ns, structurally_complete=trace.whole, ended=False
            )
            if due_ns <= received_ns:
                trace.closed_ns = due_ns

    def by_service(self) -> list[ServiceLateness]:
        """One for each service, by name; a trace's service is its local root's, else its first span's."""
        grouped: dict[str, list[_Arriving]] = {}
        for trace in self._traces.values():
            grouped.setdefault(trace.service, []).append(trace)
        return [_summed(service, grouped[service]) for service in sorted(grouped)]


def _summed(service: str, traces: Sequence[_Arriving]) -> ServiceLateness:
    late = [(t.last_ns - t.closed_ns) / NS_PER_S for t in traces if t.closed_ns is not None]
    return ServiceLateness(
        service,
        len(traces),
        len(late),
        sum(not trace.whole for trace in traces),
        sorted(trace.quiet_whole_ns / NS_PER_S for trace in traces),
        sorted(trace.quiet_open_ns / NS_PER_S for trace in traces),
        sorted((trace.last_ns - trace.first_ns) / NS_PER_S for trace in traces),
        sorted(late),
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value that `part` of `ordered` do not exceed; 0 for none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def lateness_findings(found: Iterable[ServiceLateness], settings: TracesSettings) -> Iterator[Finding]:
    """One finding for each service: how late its spans come, and which times would wait for them."""
    for service in found:
        wanted = _wanted(service, settings)
        evidence: dict[str, JsonValue] = {
            "traces": service.traces,
            "reopened": service.reopened,
            "quiet_while_whole_s": _quantiles(service.whole_s),
            "quiet_while_incomplete_s": _quantiles(service.open_s),
            "age_s": _quantiles(service.age_s),
            "after_first_closing_s": _quantiles(service.late_s),
            "suggested": {name: duration_text(value) for name, value in wanted.items()},
        }
        text = (
            f"{share(service.reopened, service.traces)} got spans after they were closed; longest pause between "
            f"spans: while complete {_s(quantile(service.whole_s, _QUANTILE))} (99%), "
            f"{_s(quantile(service.whole_s, 1))} (max); "
            f"while incomplete {_s(quantile(service.open_s, _QUANTILE))}, {_s(quantile(service.open_s, 1))}"
        )
        name = service.service or "an unnamed service"
        if not wanted:
            yield Finding("arrivals", "ok", name, text, evidence=evidence)
            continue
        own = ", ".join(f"{key}: {duration_text(value)}" for key, value in wanted.items() if key != "reopen_for")
        advice = []
        if own:
            advice.append(f"traces.overrides: - {{service: {service.service or '...'}, {own}}}")
        if "reopen_for" in wanted:
            advice.append(f"traces.reopen_for: {duration_text(wanted['reopen_for'])}")
        level: Level = "warning" if service.traces >= _ENOUGH_TRACES or "reopen_for" in wanted else "note"
        yield Finding("arrivals", level, name, text, "set " + "; ".join(advice), evidence)


def _wanted(found: ServiceLateness, settings: TracesSettings) -> dict[str, float]:
    """The times that should be longer, and how long."""
    wanted: dict[str, float] = {}
    if found.reopened > (1 - _QUANTILE) * found.traces:
        measured = {"settle": found.whole_s, "idle_timeout": found.open_s, "max_age": found.age_s}
        for name, values in measured.items():
            needed = quantile(values, _QUANTILE)
            if needed >= getattr(settings, name):
                wanted[name] = _nice(needed * 1.25)
        # In the order that settings ask for.
        longest = 0.0
        for name in measured:
            longest = max(longest, wanted.get(name, getattr(settings, name)))
            if longest > getattr(settings, name):
                wanted[name] = longest
    if found.late_s and found.late_s[-1] > settings.reopen_for:
        wanted["reopen_for"] = _nice(found.late_s[-1] * 1.25)
    return {name: wanted[name] for name in ("settle", "idle_timeout", "max_age", "reopen_for") if name in wanted}


def _nice(seconds: float) -> float:
    return float(next((nice for nice in _NICE_S if nice >= seconds), round(seconds)))


def _quantiles(ordered: Sequence[float]) -> dict[str, JsonValue]:
    return {name: round(quantile(ordered, part), 3) for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1))}


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s"
