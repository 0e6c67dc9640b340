"""Where Parquet files are written, and how often."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from tracegrade.display import without_secrets
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import read_as_path

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def _place(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not url or (separator and scheme != "s3"):
        raise ValueError(f"expected a folder or s3://BUCKET/PREFIX, found {without_secrets(url)!r}")
    if separator and not _BUCKET.fullmatch(bucket := rest.partition("/")[0]):
        raise ValueError(
            f"expected s3://BUCKET/PREFIX with a bucket of 3 to 63 lower-case letters, digits, '-' and '.', found "
            f"{without_secrets(bucket)!r}; keys belong into parquet.s3"
        )
    return url


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"expected http://HOST:PORT or https://HOST:PORT, found {without_secrets(url)!r}")
    return url


class S3Settings(FileModel):
    """How to reach the bucket; what is left out comes from AWS's environment variables, profile or instance role."""

    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = Field(
        None, description="URL of an S3 server that is not Amazon's, such as MinIO: http://HOST:PORT"
    )
    region: str | None = Field(None, description="The bucket's region")
    access_key_id: SecretStr | None = Field(None, description="Key id; never shown")
    secret_access_key: SecretStr | None = Field(None, description="Its secret; never shown")

    @model_validator(mode="after")
    def _has_both_keys(self) -> "S3Settings":
        if (self.access_key_id is None) != (self.secret_access_key is None):
            found, lacking = "access_key_id", "secret_access_key"
            if self.access_key_id is None:
                found, lacking = lacking, found
            raise ValueError(f"found {found} without {lacking}; set both, or neither to use AWS's own ways")
        return self


class ParquetSettings(FileModel):
    """The ``parquet`` section: results and tool calls as Parquet files; needs the extra tracegrade[parquet]."""

    url: Annotated[str, AfterValidator(_place), read_as_path(lambda text: "://" not in text)] = Field(
        description="A folder, made if missing, outside data_dir; or s3://BUCKET/PREFIX"
    )
    every: Duration = Field(60.0, gt=0, description="Longest time that rows wait until they are written")
    max_rows: int = Field(100_000, ge=1, description="Rows that are written without waiting for longer")
    include_values: bool = Field(
        False, description="Write arguments, outputs, details and messages of errors, which hold values of traces"
    )
    retention: Duration | None = Field(
        None, gt=0, description="Delete the files of a day when all of it is older than this; null: keep them"
    )
    when_full: Literal["refuse", "drop_oldest"] = Field(
        "drop_oldest",
        description="When the results journal is full because files cannot be written: judging waits, or the oldest "
        "rows are lost, counted",
    )
    s3: S3Settings = Field(default_factory=S3Settings, description="How to reach the bucket")

    @model_validator(mode="after")
    def _knows_where_s3_is_for(self) -> "ParquetSettings":
        if self.s3.model_fields_set and not self.is_s3:
            raise ValueError(f"s3 is for an url that begins with s3://, found {self.url!r}; remove it, or change url")
        return self

    @property
    def is_s3(self) -> bool:
        """Whether the files go to a bucket."""
        return self.url.startswith("s3://")
