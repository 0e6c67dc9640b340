"""Describes what a file is that is not read, for messages."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE

from tracegrade.display import count
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.json import spans_within

FILES = (
    "OTLP as JSON or protobuf, as the file exporter of a Collector writes it, Grafana Tempo's export, or ATIF; plain, "
    "gzip or zstd"
)
_MAX_KEYS = 4
_MAX_TEXT = 30
_BOMS = (
    # UTF-32's little-endian mark begins with that of UTF-16.
    (BOM_UTF32_LE, "UTF-32"),
    (BOM_UTF32_BE, "UTF-32"),
    (BOM_UTF16_LE, "UTF-16"),
    (BOM_UTF16_BE, "UTF-16"),
)
_WITHOUT_BOM = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
_JSON_START = re.compile(r"\s*[{\[]\s*[\"{\[\]}]")
_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"SQLite format 3\0": "an SQLite database",
    b"\x7fELF": "a program",
    b"%PDF": "a PDF",
    b"BZh": "a file that bzip2 compressed",
    b"\xfd7zXZ\0": "a file that xz compressed",
    b"\x04\x22\x4d\x18": "a file that lz4 compressed",
}


def described(document: JsonValue) -> str:
    """A JSON value that is no request, such as ``a JSON list of 3 values, such as Zipkin writes``."""
    if isinstance(document, dict):
        keys = ", ".join(map(repr, [key[:_MAX_TEXT] for key in document][:_MAX_KEYS])) or "no keys"
        return f"a JSON object with {keys}{_writer_of_object(document)}"
    if isinstance(document, list):
        return f"a JSON list of {count(len(document), 'value')}{_writer_of_list(document)}"
    kinds = {str: "a JSON text", bool: "a JSON truth value", type(None): "a JSON null"}
    return kinds.get(type(document), "a JSON number")


def _writer_of_object(document: dict[str, JsonValue]) -> str:
    data = document.get("data")
    first = data[0] if isinstance(data, list) and data else None
    if isinstance(first, dict) and {"traceID", "spans"} <= first.keys():
        return ", which is Jaeger's own JSON: export OTLP, as its API /api/v3/traces does"
    if {"context", "parent_id", "start_time"} <= document.keys():
        return ", which is what console exporters of SDKs print: export OTLP"
    if isinstance(schema := document.get("schema_version"), str):
        return f", with schema_version {schema[:_MAX_TEXT]!r}"
    return ", with spans in it" if spans_within(document) else ""


def _writer_of_list(items: list[JsonValue]) -> str:
    first = items[0] if items else None
    if isinstance(first, dict):
        if {"traceId", "id"} <= first.keys():
            return ", which is Zipkin's JSON: export OTLP"
        if spans_within(first):
            return " (jq -c '.[]' puts each on a line of its own)"
    return ""


def described_bytes(head: bytes) -> str:
    """The beginning of a file that is neither JSON, text nor protobuf, "" where that does not show."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if encoding := _encoding(head):
        return f"text in {encoding}; expected UTF-8: iconv -f {encoding} -t UTF-8"
    return ""


def described_text(head: bytes) -> str:
    """The beginning of a file that is text and no traces, "" where it is no text.

    Protobuf has bytes in its first few that no text has.
    """
    text = head.decode("utf-8", "ignore").strip("\ufeff")
    if not all(character.isprintable() or character in "\t\r\n" for character in text) or not text.strip():
        return ""
    if len(text.encode()) < len(head) - 3:  # more than a character cut at its end
        return ""
    shown = " ".join(text.split())[:_MAX_TEXT]
    return f"text that begins with {shown!r}"


def _encoding(head: bytes) -> str:
    """The encoding of `head` where it is JSON in UTF-16 or UTF-32, or has the mark of one; "" otherwise."""
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            return encoding
    return next((name for name in _WITHOUT_BOM if _JSON_START.match(head.decode(name, "ignore"))), "")
