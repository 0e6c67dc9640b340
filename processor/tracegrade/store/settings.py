"""Where results are stored, and for how long."""

from pydantic import Field

from tracegrade.yaml_file import Duration, FileModel


class StoreSettings(FileModel):
    """The ``store`` section of the configuration file."""

    url: str = Field(
        default="sqlite:///{data_dir}/tracegrade.db",
        description="SQLite by path, or PostgreSQL as postgresql+psycopg://user:password@host/database.",
    )
    retention: Duration = Field(
        default=30 * 86400.0, description="Traces, results and alerts older than this are deleted."
    )
