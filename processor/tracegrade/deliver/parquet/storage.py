"""The folder or the bucket that holds Parquet files. Paths are relative to it, with slashes."""

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tracegrade.deliver.parquet.settings import ParquetSettings, S3Settings
from tracegrade.journal.disk import sync_folder
from tracegrade.journal.files import remove_unfinished, replace_file
from tracegrade.model.errors import TraceGradeError

_CONNECT_S = 5.0
_REQUEST_S = 30.0
_S3_ATTEMPTS = 2  # a whole delivery is tried again by its consumer
_DENIED = re.compile(r"ACCESS_DENIED|AccessDenied|HTTP status 403|InvalidAccessKeyId|SignatureDoesNotMatch")
_ELSEWHERE = re.compile(r"HTTP status 301|PermanentRedirect|AuthorizationHeaderMalformed")
SUFFIX = ".parquet"


class ParquetError(TraceGradeError):
    """Parquet files cannot be written there: the extra is not installed, or the folder or bucket is not usable."""


def check_extra() -> None:
    """Find out whether Parquet files can be written at all; loads nothing.

    Raises:
        ParquetError: the extra is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ParquetError(
            "parquet needs an extra: pip install 'tracegrade[parquet]', or leave parquet out of the settings"
        )


def check_place(settings: ParquetSettings) -> None:
    """Find out whether files can be written there; makes the folder. A bucket that does not answer is no mistake.

    Raises:
        ParquetError: the extra is not installed, the folder cannot be written to, or there is no such bucket, or not in
            this region, or it refuses us.
    """
    check_extra()
    if settings.is_s3:
        _check_bucket(settings)
        return
    probe = Path(settings.url, ".writable")
    try:
        _make_folder(probe.parent.absolute())
        replace_file(probe, b"")
        probe.unlink()
    except OSError as error:
        raise ParquetError(
            f"parquet.url: cannot write to {settings.url!r}: {error.strerror}; expected a folder that this user may "
            "write to, made if missing"
        ) from None


def _check_bucket(settings: ParquetSettings) -> None:
    from pyarrow import fs

    bucket = settings.url.removeprefix("s3://").partition("/")[0]
    try:
        (found,) = _s3(settings.s3).get_file_info([bucket])
    except OSError as error:
        if _DENIED.search(str(error)):
            raise ParquetError(
                f"parquet.url: the bucket {bucket!r} refuses these keys; set parquet.s3.access_key_id and "
                "secret_access_key, or AWS's environment variables, to keys that may list, read, write and delete"
            ) from None
        if _ELSEWHERE.search(str(error)):
            raise ParquetError(
                f"parquet.url: the bucket {bucket!r} is in another region; set parquet.s3.region to the bucket's"
            ) from None
        return  # away for now: rows wait in the results journal
    if found.type == fs.FileType.NotFound:
        raise ParquetError(f"parquet.url: there is no bucket {bucket!r}; create it, or name another")


class Storage:
    """Files below a folder or below a prefix in a bucket; a write is durable and whole on return, or not there."""

    def __init__(self, settings: ParquetSettings) -> None:
        """Prepare; nothing is read or written yet.

        Raises:
            ParquetError: the extra is not installed.
        """
        check_extra()
        from pyarrow import fs

        self._settings = settings
        self._fs: Any
        if settings.is_s3:
            self._root = settings.url.removeprefix("s3://").strip("/")
            self._fs = _s3(settings.s3)
        else:
            self._root = str(Path(settings.url).absolute())
            self._fs = fs.LocalFileSystem()

    def write(self, path: str, content: Any) -> None:
        """Write `content` (bytes, or a buffer of pyarrow) to `path`, in place of what is there.

        Raises:
            OSError: the disk or the bucket refused.
        """
        if not self._settings.is_s3:
            _make_folder((target := Path(self._root, path)).parent)
            replace_file(target, content)
            return
        with self._fs.open_output_stream(f"{self._root}/{path}") as stream:
            stream.write(content)

    def read(self, path: str) -> Any:
        """The file at `path`, open for reading at any place.

        Raises:
            OSError: it is not there, or cannot be read.
        """
        return self._fs.open_input_file(f"{self._root}/{path}")

    def files(self, folder: str) -> list[str]:
        """The paths of all Parquet files below `folder`, sorted; [] when there is no such folder."""
        return sorted(
            self._relative(found.path)
            for found in self._below(folder, recursive=True)
            if found.is_file and found.path.endswith(SUFFIX)
        )

    def folders(self, folder: str) -> list[str]:
        """The paths of the folders directly in `folder`, sorted."""
        return sorted(self._relative(found.path) for found in self._below(folder, recursive=False) if not found.is_file)

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is deleted already."""
        with suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{path}")

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        with suppress(FileNotFoundError):
            self._fs.delete_dir(f"{self._root}/{path}")

    def remove_unfinished(self, writers: Iterable[str]) -> None:
        """Remove what kills left of files of these writers, none of which may be writing; a bucket shows none.

        Those of others, of an hour ago or earlier, are removed with them.
        """
        if not self._settings.is_s3:
            folder = Path(self._root)
            remove_unfinished(folder, below=True)
            for writer in writers:
                remove_unfinished(folder, f"{writer}-", left_after_s=0, below=True)

    def _below(self, folder: str, *, recursive: bool) -> list[Any]:
        from pyarrow import fs

        chosen = fs.FileSelector(f"{self._root}/{folder}", recursive=recursive, allow_not_found=True)
        return list(self._fs.get_file_info(chosen))

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")


def _s3(settings: S3Settings) -> Any:
    from pyarrow import fs

    known: dict[str, Any] = {}
    if settings.endpoint is not None:
        parts = urlsplit(settings.endpoint)
        known |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if settings.access_key_id is not None and settings.secret_access_key is not None:
        known |= {
            "access_key": settings.access_key_id.get_secret_value(),
            "secret_key": settings.secret_access_key.get_secret_value(),
        }
    if settings.region is not None:
        known["region"] = settings.region
    return fs.S3FileSystem(
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
        **known,
    )


def _make_folder(folder: Path) -> None:
    """Make `folder`; it is there also after a power cut."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)
