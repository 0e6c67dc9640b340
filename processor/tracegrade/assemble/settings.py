"""The ``traces`` section of the settings."""

from pydantic import Field, model_validator

from tracegrade.yaml_file import Duration, FileModel


class TracesSettings(FileModel):
    """When a trace is taken to be finished, and how much of it is held."""

    settle: Duration = Field(2.0, description="Quiet time once the local root is here and no parent is missing")
    idle_timeout: Duration = Field(60.0, description="Quiet time without the root, or with parents missing")
    max_age: Duration = Field(3600.0, description="Time since the first span, whatever still comes")
    reopen_for: Duration = Field(600.0, description="How long after its latest closing a late span reopens a trace")
    end_attribute: str | None = Field(None, description="A span with this attribute set to true ends its trace at once")
    max_spans_per_trace: int = Field(50_000, ge=1, description="A longer trace is closed, further spans are dropped")
    max_mib_per_trace: int = Field(64, ge=1, description="A larger trace is closed, further spans are dropped")
    max_live_traces: int = Field(200_000, ge=1, description="Beyond it, the longest quiet trace is closed")
    max_live_spans: int = Field(1_000_000, ge=1, description="Beyond it, the longest quiet trace is closed")
    ignore_scopes: list[str] = Field(
        default_factory=list, description="Scopes of a second instrumentation, dropped before extraction"
    )

    @model_validator(mode="after")
    def _orders_its_times(self) -> "TracesSettings":
        if not self.settle <= self.idle_timeout <= self.max_age:
            raise ValueError(
                "expected settle <= idle_timeout <= max_age, "
                f"found {self.settle:g}s, {self.idle_timeout:g}s, {self.max_age:g}s"
            )
        return self
