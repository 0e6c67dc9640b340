"""SOURCEs: OTLP requests read from files, folders and standard input, one request in memory at a time.

A file holds JSON (one document, or one per line: OTLP/JSON, as the collector's file exporter writes it, Grafana Tempo's
export of a trace, or ATIF) or OTLP protobuf (one request, or requests each after its length as a varint), plain or in
gzip or zstd. The content decides which it is, never the name. Only between traces, logs and metrics the name decides,
where the content cannot.

What is not read of a file, and what each was taken for, is in the `SourceReport`.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from zstandard import ZstdError

from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.files.foreign import FILES, described_bytes, described_text
from tracegrade.otlp.files.json_lines import read_json
from tracegrade.otlp.files.protobuf import read_protobuf
from tracegrade.otlp.files.report import EMPTY, NO_TRACES, FileRead, SourceReport
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.otlp.files.streams import decompressed, peek

# Other files in a folder are not traces: expectations, notes, rule files.
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".binpb", ".pb", ".bin", ".otlp"})
_COMPRESSED_SUFFIXES = frozenset({".gz", ".zst"})

# `{` or `[`, then a key, a value or the end. Lengths of 0x7b and 0x5b are also these, and 0x0a, the tag after them, is
# also a newline; but then a shorter length follows, and a control character where a text would begin.
_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:\"[^\x00-\x1f]|\}|\Z)|\[\s*(?:[\[{\]]|\"[^\x00-\x1f]|\Z))")
_HEAD_BYTES = 256


def read_sources(paths: Sequence[str], report: SourceReport, stdin: BinaryIO | None = None) -> Iterator[SourceRequest]:
    """All requests of all sources, in the order given; a folder's files in the order of their paths.

    Args:
        paths: files, folders (read to any depth, files with a known ending only) and ``-``.
        report: takes what each file was taken for, and what was not read of it.
        stdin: what ``-`` reads.

    Raises:
        TraceGradeError: missing, unreadable, torn or of no format that is read.
    """
    for path in paths:
        if path == "-":
            if stdin is None:
                raise TraceGradeError("-: there is no standard input to read")
            yield from _read_stream(stdin, report.file("-"), in_folder=False)
        elif Path(path).is_dir():
            members = _members(Path(path))
            for member in members:
                yield from _read_file(member, report, in_folder=True)
            if not members:
                report.file(path).remarks.append(
                    f"no name in this folder ends in one of {', '.join(sorted(_SUFFIXES))}"
                )
        else:
            yield from _read_file(Path(path), report, in_folder=False)


def _members(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if _is_source_name(path) and path.is_file())


def _is_source_name(path: Path) -> bool:
    inner = Path(path.stem) if path.suffix in _COMPRESSED_SUFFIXES else path
    return inner.suffix in _SUFFIXES and not path.name.startswith(".")


def _read_file(path: Path, report: SourceReport, *, in_folder: bool) -> Iterator[SourceRequest]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise TraceGradeError(
            f"{path}: cannot be read: {error.strerror}; expected a file or folder of traces"
        ) from None
    with stream:
        yield from _read_stream(stream, report.file(str(path)), in_folder=in_folder)


def _read_stream(stream: BinaryIO, file: FileRead, *, in_folder: bool) -> Iterator[SourceRequest]:
    name = file.name
    try:
        plain = decompressed(stream)
        head, plain = peek(plain, _HEAD_BYTES)
        if _JSON_START.match(head):
            yield from read_json(plain, file, in_folder=in_folder)
        elif not head.strip():
            file.take_for(EMPTY)
        elif found := described_bytes(head):
            raise TraceGradeError(f"{name}: not OTLP: found {found}")
        elif found := described_text(head):
            if not in_folder:
                raise TraceGradeError(f"{name}: not OTLP: found {found}; expected {FILES}")
            file.take_for(NO_TRACES)
        else:
            yield from read_protobuf(plain, head, file)
    except (EOFError, gzip.BadGzipFile, zlib.error, ZstdError) as error:
        raise TraceGradeError(f"{name}: broken compression: {error}") from None
    except OSError as error:
        raise TraceGradeError(f"{name}: cannot be read: {error.strerror or error}") from None
