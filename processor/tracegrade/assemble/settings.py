"""The ``traces`` section of the settings."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import InitErrorDetails

from tracegrade.match.mistakes import mistake, refuse
from tracegrade.match.patterns import Names
from tracegrade.match.tool_aliases import check_aliases
from tracegrade.words import duration_text
from tracegrade.yaml_file import Duration, FileModel


class TracesOverride(FileModel):
    """Other times for the traces in which some span is of one service, names one agent, or both."""

    service: Names | None = Field(None, description="service.name of a span; globs, a list means any")
    agent: Names | None = Field(
        None, description="The agent that the same span names; applies from the first such span on"
    )
    settle: Duration | None = Field(None, description="Instead of traces.settle")
    idle_timeout: Duration | None = Field(None, description="Instead of traces.idle_timeout")
    max_age: Duration | None = Field(None, description="Instead of traces.max_age")
    end_attribute: str | None = Field(None, min_length=1, description="Instead of traces.end_attribute")


OVERRIDDEN = ("settle", "idle_timeout", "max_age", "end_attribute")


class TracesSettings(FileModel):
    """When a trace is taken to be finished, and how much of it is held."""

    settle: Duration = Field(2.0, description="Quiet time once the local root is here and no parent is missing")
    idle_timeout: Duration = Field(60.0, description="Quiet time without the root, or with parents missing")
    max_age: Duration = Field(3600.0, description="Time since the first span, whatever still comes")
    reopen_for: Duration = Field(600.0, description="How long after its latest closing a late span reopens a trace")
    end_attribute: str | None = Field(None, description="A span with this attribute set to true ends its trace at once")
    session_quiet: Duration = Field(300.0, description="A session ends so long after the last of its traces closed")
    session_end_attribute: str | None = Field(
        None, min_length=1, description="A span with this attribute set to true ends its session with its trace"
    )
    max_traces_per_session: int = Field(200, ge=1, description="Of a longer session, the first that closed are judged")
    max_calls_per_session: int = Field(10_000, ge=1, description="Of a longer session, the earliest calls are judged")
    max_spans_per_trace: int = Field(
        50_000, ge=1, description="Spans and log records: a longer trace is closed, the rest dropped"
    )
    max_mib_per_trace: int = Field(64, ge=1, description="A larger trace is closed, the rest dropped")
    max_live_traces: int = Field(200_000, ge=1, description="Beyond it, the longest quiet trace is closed")
    max_live_spans: int = Field(1_000_000, ge=1, description="Beyond it, the longest quiet trace is closed")
    max_unpacked_spans: int = Field(
        100_000,
        ge=0,
        description="Beyond so many open spans, those of the longest quiet traces are held compressed; "
        "so are those of traces that closed and are not stored yet",
    )
    ignore_scopes: list[str] = Field(
        default_factory=list, description="Scopes of a second instrumentation, dropped before extraction"
    )
    overrides: list[TracesOverride] = Field(
        default_factory=list,
        description="Other times by service and agent; of several that apply, the first that sets a value gives it",
    )
    tool_aliases: Annotated[dict[str, list[str]], AfterValidator(check_aliases)] = Field(
        default_factory=dict,
        description="Tools that come under several names: the name that rules use, then the others (globs)",
    )

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
