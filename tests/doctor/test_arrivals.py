"""How late spans come, and which times would wait for them."""

from collections.abc import Sequence

from build import each, span
from tracegrade.assemble.settings import TracesSettings
from tracegrade.doctor.arrivals import Lateness, ServiceLateness, lateness_findings, quantile
from tracegrade.doctor.finding import Finding
from tracegrade.model.span import Resource, Span


def observed(settings: TracesSettings, *arrivals: tuple[float, Sequence[Span]], traces: int = 1) -> ServiceLateness:
    """What is seen when the same spans, received at these seconds, come in each of so many traces."""
    seen = Lateness(settings)
    for number in range(traces):
        for at, spans in arrivals:
            of_trace = [Span(number.to_bytes(16, "big"), *_rest(one)) for one in spans]
            seen.add(of_trace, "default", round(at * 1e9))
    (service,) = seen.by_service()
    return service


def _rest(one: Span) -> list[object]:
    return [getattr(one, name) for name in Span.__slots__ if name != "trace_id"]


def finding(settings: TracesSettings, service: ServiceLateness) -> Finding:
    (found,) = lateness_findings([service], settings)
    return found


def test_quiet_times_are_told_apart_by_whether_the_trace_was_whole() -> None:
    seen = observed(
        TracesSettings(),
        (0, [span(2, 1)]),
        (3, [span(1)]),
        (4.5, [span(3, 1)]),
        (5, [span(5, 4)]),
        (5.25, [span(4, 1)]),
    )
    assert (seen.open_s, seen.whole_s, seen.age_s) == ([3.0], [1.5], [5.25])
    assert (seen.traces, seen.reopened, seen.incomplete) == (1, 0, 0)


def test_what_came_after_the_first_closing_is_late_by_the_time_since_then() -> None:
    seen = observed(TracesSettings(settle="2s"), (0, [span(1)]), (12, [span(2, 1)]), (13, [span(3, 1)]))
    assert (seen.reopened, seen.late_s) == (1, [11.0])


def test_a_span_that_is_sent_again_is_not_late() -> None:
    seen = observed(TracesSettings(), (0, [span(1)]), (500, [span(1)]))
    assert (seen.reopened, seen.whole_s) == (0, [0.0])


def test_times_that_would_have_waited_are_suggested() -> None:
    settings = TracesSettings()
    found = finding(settings, observed(settings, (0, [span(1)]), (12, [span(2, 1)]), traces=20))
    assert found.level == "warning"
    assert found.where == "shop"
    assert found.found.startswith("20 of 20 (100%) got spans after they were closed")
    assert found.advice == "set traces.overrides: - {service: shop, settle: 15s}"
    assert found.evidence["suggested"] == {"settle": "15s"}


def test_suggested_times_are_in_the_order_that_settings_ask_for() -> None:
    settings = TracesSettings()
    seen = observed(settings, (0, [span(1)]), (400, [span(2, 1)]), traces=20)
    suggested = finding(settings, seen).evidence["suggested"]
    assert suggested == {"settle": "10m", "idle_timeout": "10m"}
    TracesSettings(overrides=[{"service": "shop", **suggested}])


def test_with_the_suggested_times_nothing_is_late() -> None:
    late = ((0, [span(2, 1)]), (70, [span(1)]), (90, [span(3, 1)]))
    settings = TracesSettings()
    suggested = finding(settings, observed(settings, *late, traces=20)).evidence["suggested"]
    changed = TracesSettings(overrides=[{"service": "shop", **suggested}])
    assert observed(changed, *late, traces=20).reopened == 0
    assert finding(changed, observed(changed, *late, traces=20)).level == "ok"


def test_one_late_trace_in_a_thousand_changes_nothing() -> None:
    settings = TracesSettings()
    seen = Lateness(settings)
    for number in range(1000):
        trace = number.to_bytes(16, "big")
        seen.add([span(1, trace=trace)], "default", 0)
        if number == 7:
            seen.add([span(2, 1, trace=trace)], "default", 30_000_000_000)
    (service,) = seen.by_service()
    assert finding(settings, service).level == "ok"


def test_one_late_trace_in_a_thousand_asks_for_nothing_where_others_wait_longer_by_an_override() -> None:
    settings = TracesSettings(overrides=[{"service": "shop", "settle": "20s"}])
    seen = Lateness(settings)
    for number in range(1000):
        trace = number.to_bytes(16, "big")
        seen.add([span(1, trace=trace)], "default", 0)
        seen.add([span(2, 1, trace=trace)], "default", (30 if number == 7 else 12) * 1_000_000_000)
    (service,) = seen.by_service()
    assert (service.reopened, finding(settings, service).level) == (1, "ok")


def test_spans_later_than_reopen_for_are_worth_a_longer_one() -> None:
    settings = TracesSettings(reopen_for="60s")
    seen = observed(settings, (0, [span(1)]), (100, [span(2, 1)]))
    found = finding(settings, seen)
    assert found.level == "warning"
    assert found.evidence["suggested"] == {"settle": "3m", "idle_timeout": "3m", "reopen_for": "3m"}


def test_services_are_told_apart_by_their_root() -> None:
    seen = Lateness(TracesSettings())
    tool = Resource({"service.name": "tools"})
    seen.add([span(2, 1, resource=tool)], "default", 0)
    seen.add([span(1)], "default", 1)
    seen.add([span(1, trace=bytes(16), resource=tool)], "default", 1)
    assert [(service.service, service.traces) for service in seen.by_service()] == [("shop", 1), ("tools", 1)]


@each(
    ("values", "part", "expected"),
    [([], 0.5, 0.0), ([4.0], 0.99, 4.0), ([1.0, 2.0, 3.0], 0.5, 2.0), ([1.0, 2.0], 1, 2.0)],
)
def test_quantiles(values: list[float], part: float, expected: float) -> None:
    assert quantile(values, part) == expected
