"""Where results are stored, and for how long."""

from pydantic import Field, field_serializer

from tracegrade.display import without_secrets
from tracegrade.document.file_model import Duration, FileModel


class StoreSettings(FileModel):
    """The ``store`` section of the configuration file."""

    url: str = Field(
        default="",
        description="sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE; empty: SQLite in data_dir",
    )
    retention: Duration = Field(
        default=30 * 86400.0,
        gt=0,
        description="Traces, results and resolved alerts older than this are deleted; those of a run by its own age",
    )

    @field_serializer("url", when_used="json")
    def _without_password(self, url: str) -> str:
        return without_secrets(url)
