"""Reports what each file of an input was taken for, and what of it was not read.

Every command that reads files says this with the same sentences.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracegrade.display import count
from tracegrade.model.json_value import JsonValue

NO_TRACES = "no traces"
EMPTY = "empty"
_HEADS = {NO_TRACES: "Without traces", EMPTY: "Empty"}
_MAX_PROBLEMS = 5
_MAX_NAMES = 3


@dataclass(slots=True)
class FileRead:
    """One file.

    ``formats`` are what it was taken for, in order of appearance; a file has mostly one, a folder without files of
    traces none. ``read`` counts what was read by its kind (span, log record, metric), ``not_read`` what was left out,
    and ``problems`` says of the first few which and why.
    ``unread_log_records`` counts those that look like tool calls and name no span: no call is read from them; of the
    first of them the name and the id that it lacks are known.
    ``repaired_texts`` counts texts that were not UTF-8: U+FFFD stands in them now. ``remarks`` say what else of it is
    not known, or is elsewhere.
    """

    name: str
    formats: list[str] = field(default_factory=list)
    read: Counter[str] = field(default_factory=Counter)
    not_read: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    repaired_texts: int = 0
    remarks: list[str] = field(default_factory=list)
    unread_log_records: int = 0
    first_unread_log_record: tuple[str, str] = ("", "")

    def take_for(self, file_format: str) -> None:
        """Note the format of the file, or of a part of it."""
        if file_format not in self.formats:
            self.formats.append(file_format)

    def leave_out(self, kind: str, number: int, problems: Sequence[str]) -> None:
        """Note that `number` items were left out; `problems` names the first few and their mistakes."""
        if number:
            self.not_read[kind] += number
            self.problems += problems[: _MAX_PROBLEMS - len(self.problems)]

    def note_unread_log_record(self, name: str, lacks: str) -> None:
        """Note a log record that looks like a tool call by its event's name, and lacks a trace or span id."""
        self.unread_log_records += 1
        if self.unread_log_records == 1:
            self.first_unread_log_record = name, lacks

    @property
    def not_read_line(self) -> str:
        """The sentence on what was not read of this file, "" where all was read."""
        if not self.not_read:
            return ""
        number = self.not_read.total()
        parts = " and ".join(count(each, kind) for kind, each in self.not_read.items())
        # A resource that is left out is one problem with all of its spans, so that the number of others is not known.
        more = "; and more" if number > len(self.problems) >= _MAX_PROBLEMS else ""
        return f"{self.name}: {parts} {_were(number)} not read: {'; '.join(self.problems)}{more}"

    @property
    def has_traces(self) -> bool:
        """Whether spans were read, or log records, which may belong to some."""
        return bool(self.read["span"] or self.read["log record"])

    @property
    def nothing_line(self) -> str:
        """The sentence on why nothing of a trace was read of this file, "" where something was."""
        if self.has_traces:
            return ""
        if self.not_read or not self.formats:  # a folder's remark says why
            return self.not_read_line or "; ".join(f"{self.name}: {remark}" for remark in self.remarks)
        if self.formats == [EMPTY]:
            return f"{self.name}: the file is empty"
        return f"{self.name}: {'metrics alone' if self.read else 'no spans in it'}"

    @property
    def warnings(self) -> list[str]:
        """The sentences on this file: what was not read, on repaired texts, and the remarks."""
        lines = [self.not_read_line] if self.not_read else []
        if not self.read and not self.not_read and set(self.formats) - {EMPTY, NO_TRACES}:
            lines.append(self.nothing_line)
        if texts := self.repaired_texts:
            repaired = (
                f"{count(texts, 'text')} {_were(texts)} not UTF-8, and what could not be read of it became U+FFFD"
            )
            lines.append(f"{self.name}: {repaired}")
        if self.unread_log_records:
            name, lacks = self.first_unread_log_record
            records = (
                f"{count(self.unread_log_records, 'log record')} of tool calls without a {lacks}, such as {name!r}"
            )
            lines.append(f"{self.name}: {records}: no call is read from such records")
        return lines + [f"{self.name}: {remark}" for remark in self.remarks]

    def to_json(self) -> dict[str, JsonValue]:
        """The file as a documented JSON object."""
        return {
            "file": self.name,
            "read_as": list(self.formats),
            "not_read": self.not_read.total(),
            "problems": list(self.problems),
            "repaired_texts": self.repaired_texts,
            "remarks": list(self.remarks),
            "message": ". ".join(self.warnings),
        }


class SourceReport:
    """All files of an input, in the order in which they were read."""

    def __init__(self) -> None:
        self._files: dict[str, FileRead] = {}

    def file(self, name: str) -> FileRead:
        """The file of this name, which is new when it is first named."""
        return self._files.setdefault(name, FileRead(name))

    @property
    def not_read(self) -> int:
        """The number of spans, log records and metrics that were left out."""
        return sum(file.not_read.total() for file in self._files.values())

    @property
    def not_read_line(self) -> str:
        """Describe in one sentence what was not read of all files; "" where all was read."""
        lines = [line for file in self._files.values() if (line := file.not_read_line)]
        if len(lines) <= 1:
            return "".join(lines)
        number = sum((file.not_read for file in self._files.values()), Counter[str]())
        parts = " and ".join(count(each, kind) for kind, each in number.items())
        return f"{parts} of {count(len(lines), 'file')} were not read; {lines[0]}"

    @property
    def nothing_read(self) -> str:
        """The sentence on an input of which nothing of a trace was read, with the reason of each file; else ""."""
        files = list(self._files.values())
        if not files or any(file.has_traces for file in files):
            return ""
        lines = [line for file in files if (line := file.nothing_line)]
        more = f"; and {count(len(lines) - _MAX_PROBLEMS, 'more file')}" if len(lines) > _MAX_PROBLEMS else ""
        return f"no trace was read: {'; '.join(lines[:_MAX_PROBLEMS])}{more}"

    @property
    def warnings(self) -> list[str]:
        """The sentences on all files, in their order."""
        return [line for file in self._files.values() for line in file.warnings]

    @property
    def format_lines(self) -> list[str]:
        """Of files of several formats, a line for each format with its files."""
        if not self._is_mixed:
            return []
        by_format: dict[str, list[str]] = {}
        for file in self._files.values():
            for name in file.formats:
                by_format.setdefault(name, []).append(file.name)
        return [f"{_HEADS.get(name, f'Taken for {name}')}: {_file_names(files)}" for name, files in by_format.items()]

    @property
    def with_remarks(self) -> list[FileRead]:
        """The files to speak of: those with a warning; of files of several formats, all."""
        if self._is_mixed:
            return list(self._files.values())
        return [file for file in self._files.values() if file.warnings]

    @property
    def _is_mixed(self) -> bool:
        return len({name for file in self._files.values() for name in file.formats}) > 1


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _file_names(files: list[str]) -> str:
    if len(files) <= _MAX_NAMES:
        return ", ".join(files)
    return f"{count(len(files), 'file')}, the first: {', '.join(files[:_MAX_NAMES])}"
