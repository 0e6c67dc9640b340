"""All that a data folder keeps: every row of every table, every file, every record of its journals, unpacked."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, inspect, text

from tracegrade.codec.packing import unpack
from tracegrade.journal.reader import JournalReader

_JOURNALS = ("journal", "results")
_FRAME = (0xFD2FB528).to_bytes(4, "little")  # what is packed begins with it: it is a frame of Zstandard


def rows_by_table(engine: Engine) -> dict[str, list[Any]]:
    """The rows of every table that the database has, also of those that the schema does not name."""
    with engine.connect() as connection:
        names = inspect(connection).get_table_names()
        return {name: list(connection.execute(text(f'SELECT * FROM "{name}"'))) for name in names}


def places_of(data: Path, engine: Engine, pieces: Sequence[str], trace_ids: Sequence[bytes]) -> dict[str, set[str]]:
    """Where any of these texts and ids stands: the names of tables and files, with the texts, and the ids in hex."""
    wanted = {piece.encode(): piece for piece in pieces}
    wanted |= {way: trace_id.hex() for trace_id in trace_ids for way in (trace_id, trace_id.hex().encode())}
    found: dict[str, set[str]] = {}
    for place, content in contents(data, engine):
        if here := {name for piece, name in wanted.items() if piece in content}:
            found.setdefault(place, set()).update(here)
    return found


def contents(data: Path, engine: Engine) -> Iterator[tuple[str, bytes]]:
    """All that is kept, by the name of its table or file; what is packed as it is packed, and unpacked."""
    for table, rows in rows_by_table(engine).items():
        for value in (value for row in rows for value in row):
            content = value if isinstance(value, bytes) else str(value).encode()
            yield table, content + _unpacked(content)
    for path in sorted(data.rglob("*")):
        with suppress(FileNotFoundError, IsADirectoryError):  # files come and go while serve runs
            place = path.relative_to(data)
            yield place.parts[0] if place.parts[0] in _JOURNALS else str(place), path.read_bytes()
    for name in _JOURNALS:
        yield from ((name, _unpacked(payload)) for payload in _records(data / name))


def _records(folder: Path) -> list[bytes]:
    reader = JournalReader(folder)
    try:
        return [bytes(record.payload) for record in reader.read(reader.first(), max_bytes=1 << 40)]
    finally:
        reader.close()


def _unpacked(content: bytes) -> bytes:
    """All that is packed in `content`."""
    parts, at = [], content.find(_FRAME)
    while at >= 0:
        with suppress(ValueError):  # the same four bytes by chance
            parts.append(unpack(content[at:]))
        at = content.find(_FRAME, at + 1)
    return b"".join(parts)
