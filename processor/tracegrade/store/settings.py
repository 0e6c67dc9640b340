"""Where results are stored, and for how long."""

from typing import Self

from pydantic import Field, field_serializer, model_validator

from tracegrade.display import without_secrets
from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import DatabaseUrl
from tracegrade.telemetry.series_bound import MAX_NAMES


class StoreSettings(FileModel):
    """The ``store`` section of the configuration file."""

    url: DatabaseUrl = Field(
        default="",
        description="sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE; empty: SQLite in data_dir",
    )
    retention: Duration = Field(
        default=30 * 86400.0,
        gt=0,
        description="Traces, results and resolved alerts older than this are deleted; those of a run by its own age",
    )
    values_retention: Duration | None = Field(
        None,
        gt=0,
        description="Prompts, arguments, outputs and everything else that spans say are deleted when older than this; "
        "names, ids, times and scores stay for `retention`. null: all stay as long",
    )
    damaged_retention: Duration = Field(
        default=7 * 86400.0,
        gt=0,
        description="A store that 'doctor --repair' replaced is deleted after this time, or after "
        "`values_retention` or `retention` where that is shorter; a deletion on request deletes it at once",
    )

    max_names: int = Field(
        default=MAX_NAMES,
        ge=1,
        description="Names of agents, services and releases, of each so many for a tenant, that have counts of their "
        "own; results of further ones are stored and listed by their name, and counts, charts and alerts call them "
        "`other`",
    )

    @model_validator(mode="after")
    def _keeps_scores_as_long_as_values(self) -> Self:
        if self.values_retention is not None and self.values_retention > self.retention:
            raise ValueError(
                f"values_retention {duration_text(self.values_retention)} is longer than retention "
                f"{duration_text(self.retention)}, which deletes all of a trace; make it shorter, or remove it"
            )
        return self

    @property
    def damaged_kept_s(self) -> float:
        """For how long, in s, a store that was put aside stays: no longer than values of a trace that comes now."""
        return min(self.damaged_retention, self.values_kept_s)

    @property
    def values_kept_s(self) -> float:
        """For how long, in s, values of traces stay."""
        return self.values_retention or self.retention

    @field_serializer("url", when_used="json")
    def _without_password(self, url: str) -> str:
        return without_secrets(url)
