"""The ``traces`` section of the settings."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

from pydantic import AfterValidator, Field, PrivateAttr, model_validator
from pydantic_core import InitErrorDetails

from tracegrade.assemble.bounds import (
    MAX_MIB_PER_TRACE,
    MAX_SPANS_PER_TRACE,
    MAX_UNPACKED_SPANS,
    OVERRIDDEN,
    REOPEN_FOR_S,
    WholeInput,
)
from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.rule.mistakes import mistake, refuse
from tracegrade.rule.patterns import Names
from tracegrade.rule.prices import Price, check_prices
from tracegrade.rule.tool_aliases import check_aliases


class TracesOverride(FileModel):
    """Other times for traces with a span of a service, of an agent, or of both."""

    service: Names | None = Field(None, description="service.name of a span; globs, a list means any")
    agent: Names | None = Field(None, description="The agent that the same span names; globs, a list means any")
    settle: Duration | None = Field(None, description="Instead of traces.settle")
    idle_timeout: Duration | None = Field(None, description="Instead of traces.idle_timeout")
    max_age: Duration | None = Field(None, description="Instead of traces.max_age")
    end_attribute: str | None = Field(None, min_length=1, description="Instead of traces.end_attribute")


class TracesSettings(FileModel):
    """When a trace is closed, and how much of it is held in memory."""

    settle: Duration = Field(
        2.0, description="A trace closes after this quiet time, when its local root is there and no parent is missing"
    )
    idle_timeout: Duration = Field(
        60.0, description="A trace closes after this quiet time, when its root or a parent is missing"
    )
    max_age: Duration = Field(
        3600.0, description="A trace closes this long after its first span, even when spans still arrive"
    )
    reopen_for: Duration = Field(REOPEN_FOR_S, description="How long after a trace closed a late span reopens it")
    end_attribute: str | None = Field(None, description="A span with this attribute set to true ends its trace at once")
    session_quiet: Duration = Field(300.0, description="A session ends this long after the last of its traces closed")
    session_end_attribute: str | None = Field(
        None, min_length=1, description="A span with this attribute set to true ends its session with its trace"
    )
    max_traces_per_session: int = Field(
        200, ge=1, description="Of a session with more traces, the first that closed are judged"
    )
    max_calls_per_session: int = Field(
        10_000, ge=1, description="Of a session with more calls, the earliest are judged"
    )
    max_spans_per_trace: int = Field(
        MAX_SPANS_PER_TRACE,
        ge=1,
        description="Most spans and log records: a trace with more is closed, and the rest is dropped",
    )
    max_mib_per_trace: int = Field(
        MAX_MIB_PER_TRACE, ge=1, description="A larger trace is closed, and the rest is dropped"
    )
    max_live_traces: int = Field(
        200_000, ge=1, description="Beyond it, the trace that has been quiet for longest is closed"
    )
    max_live_spans: int = Field(
        1_000_000, ge=1, description="Beyond it, the trace that has been quiet for longest is closed"
    )
    max_unpacked_spans: int = Field(
        MAX_UNPACKED_SPANS,
        ge=0,
        description="Beyond this many open spans, those of the longest quiet traces are held compressed. The "
        "same bound holds for spans of closed traces that are not stored yet, and for the spans of session traces "
        "whose extraction is remembered",
    )
    ignore_scopes: list[str] = Field(
        default_factory=list,
        description="Scopes of a second instrumentation, whose spans are dropped before extraction",
    )
    read_by_shape: bool = Field(
        True,
        description="Read spans that no dialect knows by what their keys and values look like. Their attributes and "
        "events are kept for that, up to 128 keys and 256 KiB a span",
    )
    overrides: list[TracesOverride] = Field(
        default_factory=list,
        description="Other times by service and agent; of several that apply, the first that sets a value gives it",
    )
    tool_aliases: Annotated[dict[str, list[str]], AfterValidator(check_aliases)] = Field(
        default_factory=dict,
        description="Tools with several names: the name that rules use, then the other names (globs)",
    )

    prices: Annotated[dict[str, Price], AfterValidator(check_prices)] = Field(
        default_factory=dict,
        description="What models cost: the name of a model (or a glob), then its price per million tokens",
    )

    _kept: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def kept_attributes(self) -> frozenset[str]:
        """The attributes to keep beside those that dialects, rules and these settings read: another section's."""
        return self._kept

    def keep(self, attributes: Iterable[str]) -> None:
        """Set `kept_attributes`; called once, by what joins the sections."""
        self._kept = frozenset(attributes)

    def shared_by(self, parts: int) -> "TracesSettings":
        """The same with the bounds of memory of one of so many assemblers in one process."""
        if parts <= 1:
            return self
        bounds = ("max_live_traces", "max_live_spans", "max_unpacked_spans")
        return self.model_copy(update={name: max(1, getattr(self, name) // parts) for name in bounds})

    @model_validator(mode="after")
    def _orders_its_times(self) -> "TracesSettings":
        if not self.settle <= self.idle_timeout <= self.max_age:
            raise ValueError(
                "expected settle <= idle_timeout <= max_age, "
                f"found {self.settle:g}s, {self.idle_timeout:g}s, {self.max_age:g}s"
            )
        if mistakes := [found for place, item in enumerate(self.overrides) for found in self._mistakes_in(place, item)]:
            raise refuse(mistakes)
        return self

    def _mistakes_in(self, place: int, override: TracesOverride) -> Iterable[InitErrorDetails]:
        if override.service is None and override.agent is None:
            yield mistake("expected service, agent or both: whose traces are meant", "overrides", place)
        if all(getattr(override, name) is None for name in OVERRIDDEN):
            yield mistake(f"expected at least one of {', '.join(OVERRIDDEN)}", "overrides", place)
        times = [getattr(override, name) for name in OVERRIDDEN[:3]]
        effective = [getattr(self, name) if own is None else own for name, own in zip(OVERRIDDEN, times, strict=False)]
        if effective != sorted(effective):
            found = ", ".join(
                duration_text(time) + ("" if own is not None else " (of traces)")
                for time, own in zip(effective, times, strict=True)
            )
            text = f"expected settle <= idle_timeout <= max_age, found {found}; set those that are missing here too"
            yield mistake(text, "overrides", place)


def without_bounds(settings: TracesSettings) -> TracesSettings:
    """`settings` for a complete input: no trace is closed before its end, or cut to save memory."""
    return settings.model_copy(update=asdict(WholeInput()) | {"overrides": []})
