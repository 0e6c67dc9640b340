"""Reads JSON from files: one document, or one a line."""

import json
from collections.abc import Iterator
from typing import BinaryIO

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.files.atif import is_atif
from tracegrade.otlp.files.document import document_requests
from tracegrade.otlp.files.foreign import described
from tracegrade.otlp.files.report import NO_TRACES, FileRead
from tracegrade.otlp.files.source_request import MAX_REQUEST_BYTES, SourceRequest, whole_request
from tracegrade.otlp.json import Document, OtlpJsonError, parse_document, spans_within
from tracegrade.otlp.request import ITEM_NAMES

_BOM = b"\xef\xbb\xbf"


def read_json(stream: BinaryIO, file: FileRead, *, in_folder: bool) -> Iterator[SourceRequest]:
    """The requests of a file of JSON; what is left out of it is noted in `file`.

    Args:
        stream: its content.
        file: the file.
        in_folder: whether JSON that holds no traces is passed over, and noted; it is an error otherwise.

    Raises:
        TraceGradeError: not JSON, or of no format that is read.
    """
    name = file.name
    number, first = 1, _read_line(stream, name, 1).removeprefix(_BOM)
    while first and not first.strip():
        number, first = number + 1, _read_line(stream, name, number + 1)
    if not _is_json(first) and not first.rstrip().endswith(b"}"):
        # The first line is not a JSON value: one document over several lines.
        rest = stream.read(MAX_REQUEST_BYTES + 1)
        if len(rest) > MAX_REQUEST_BYTES:
            raise TraceGradeError(f"{name}: expected one JSON request, or one a line; found neither in its first lines")
        yield from _requests(first + rest, name, file, in_folder=in_folder)
        return
    line = first
    while line:
        if line.strip():
            yield from _requests(line, f"{name}:{number}", file, in_folder=in_folder)
        number += 1
        line = _read_line(stream, name, number)


def _read_line(stream: BinaryIO, name: str, number: int) -> bytes:
    line = stream.readline(MAX_REQUEST_BYTES + 1)
    if len(line) > MAX_REQUEST_BYTES:
        raise TraceGradeError(
            f"{name}:{number}: a line of more than {MAX_REQUEST_BYTES} bytes; expected one request a line"
        )
    return line


def _is_json(text: bytes) -> bool:
    try:
        parse_document(text)
    except OtlpJsonError:
        return False
    return True


def _requests(text: bytes, origin: str, file: FileRead, *, in_folder: bool) -> Iterator[SourceRequest]:
    try:
        text = text.removeprefix(_BOM)  # files with one each, put together, have it within
        document = _parsed(text)
        may_be_exact = is_atif(document.value) and not document.repaired_texts
        found = document_requests(_exact(text, document.value) if may_be_exact else document.value)
        if found is None:
            if in_folder:
                file.take_for(NO_TRACES)
                file.leave_out("span", spans_within(document.value), [f"found {described(document.value)}"])
                return
            raise OtlpJsonError("$", f"found {described(document.value)}; expected {_EXPECTED}")
    except OtlpJsonError as error:
        raise TraceGradeError(f"{origin}: {error}") from None
    file.take_for(found.file_format)
    file.repaired_texts += document.repaired_texts
    file.remarks += [remark for remark in found.remarks if remark not in file.remarks]
    for signal, request in found.requests:
        file.leave_out(found.part or ITEM_NAMES[signal], request.dropped, request.problems)
        yield whole_request(signal, request.message, origin, file)


_EXPECTED = (
    "one request in the file or one a line: an object with 'resourceSpans', 'resourceLogs' or 'resourceMetrics' "
    "(OTLP/JSON), 'batches' or 'trace' (Grafana Tempo), or 'schema_version' ATIF-v1"
)


def _exact(text: bytes, document: JsonValue) -> JsonValue:
    """The document with its integers exact at any size, which it has as floats beyond 64 bits."""
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):  # numbers of thousands of digits
        return document
    return found


def _parsed(text: bytes) -> Document:
    try:
        return parse_document(text)
    except OtlpJsonError:
        if text.rstrip().endswith(b"}") and b"\n}" in text.rstrip()[:-2]:
            raise OtlpJsonError(
                "$",
                "not one JSON value; if it is several, each over several lines, put each on a line of its own: jq -c .",
            ) from None
        raise
