"""The files of tests beside a rule: the trace, and an entry in ``tests.yaml``, whose comments and layout stay."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracegrade.document.document import Document
from tracegrade.document.problem import FileError, Location
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import dumped, parse, read
from tracegrade.history.new_rules.new_rule import trace_file
from tracegrade.history.promote.promotion import Promotion
from tracegrade.model.errors import NotPossible
from tracegrade.model.evaluation import Outcome
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace import Trace
from tracegrade.otlp.from_spans import requests_of
from tracegrade.otlp.json import to_json
from tracegrade.pipeline.rule_tests import RuleTests, worst
from tracegrade.rule.load import builtin_rules, tests_path

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")


@dataclass(slots=True)
class RuleTestFiles:
    """The test files of one rule as they are, and as they will be.

    Attributes:
        files: what is to be written, by path; empty while nothing changes.
    """

    path: Path
    files: dict[Path, str] = field(default_factory=dict)
    _text: str = ""
    _entries: list[JsonValue] = field(default_factory=list)
    _document: Document | None = None

    @classmethod
    def beside(cls, rule_path: Path) -> "RuleTestFiles":
        """The tests of the rule in that file, if there are any yet.

        Raises:
            FileError: its tests.yaml is wrong.
        """
        path = tests_path(rule_path)
        if not path.exists():
            return cls(path)
        document = read(path)
        if document.value is None:  # comments alone
            return cls(path, _text=path.read_text(encoding="utf-8"))
        validate(document, RuleTests)
        entries = document.value if isinstance(document.value, list) else []
        return cls(path, {}, path.read_text(encoding="utf-8"), list(entries), document)

    def has(self, trace_id: str) -> int | None:
        """The line at which a test of this trace stands; None where there is none."""
        for place, entry in enumerate(self._entries):
            if isinstance(entry, dict) and f"{trace_id}.json" in traces_of(entry):
                return self._document.position((place,))[0] if self._document is not None else 1
        return None

    def lacks(self) -> list[Outcome]:
        """Of fail and pass, those of which a rule's tests need a trace and have none."""
        there = {outcome for entry in self._entries if (outcome := _outcome(entry)) is not None}
        needed: tuple[Outcome, ...] = ("fail", "pass")
        return [outcome for outcome in needed if outcome not in there]

    def add(self, promoted: Promotion) -> None:
        """A test, in `files` from now on.

        Raises:
            NotPossible: an entry cannot be put at the end of this tests.yaml.
        """
        texts = {path.name: _file_of(trace) for path, trace in zip(self.of(promoted), promoted.traces, strict=True)}
        names = [*texts]
        entry: dict[str, JsonValue] = {
            "description": promoted.description,
            "trace": names[0] if len(names) == 1 else [*names],
            "expect": promoted.expect if isinstance(promoted.expect, str) else {**promoted.expect},
        }
        if promoted.known_gap:
            entry["known_gap"] = promoted.known_gap
        self.add_entry(entry, texts)

    def add_entry(self, entry: dict[str, JsonValue], texts: Mapping[str, str]) -> None:
        """A test as `tests.yaml` has it, and the texts of its traces by their file names. Raises as `add`."""
        self._append(entry)
        self.files |= {self.path.parent / "traces" / name: text for name, text in texts.items()}
        self.files.pop(self.path, None)
        self.files[self.path] = self._text  # last: an entry names traces that are there

    def of(self, promoted: Promotion) -> list[Path]:
        """The files of a test's traces; those of a session are several."""
        return [self.path.parent / "traces" / f"{trace.trace_id.hex()}.json" for trace in promoted.traces]

    def _append(self, entry: dict[str, JsonValue]) -> None:
        text = self._text if not self._text or self._text.endswith("\n") else self._text + "\n"
        text += _written(entry, self._indent())
        try:
            document = parse(text, str(self.path))
        except FileError:
            document = None
        if document is None or document.value != [*self._entries, entry]:
            raise NotPossible(
                f"{self.path}: an entry cannot be put at its end; write it as a list of entries that begin with '- ', "
                "and nothing after them"
            )
        self._text, self._document = text, document
        self._entries.append(entry)

    def _indent(self) -> int:
        """How far the entries of the file are indented."""
        if not self._entries or self._document is None:
            return 0
        first: Location = (0,)
        line = self._text.splitlines()[self._document.position(first)[0] - 1]
        return len(line) - len(line.lstrip())


def _file_of(trace: Trace) -> str:
    return trace_file([to_json(request) for request in requests_of(trace)])


def traces_of(entry: Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    """The file names of the traces of an entry."""
    named = entry.get("trace")
    return named if isinstance(named, list) else [named]


def _outcome(entry: JsonValue) -> Outcome | None:
    """The worst outcome that an entry expects; None of one that proves nothing."""
    expected = entry.get("expect") if isinstance(entry, dict) else None
    if not isinstance(expected, dict) or not isinstance(entry, dict) or "known_gap" in entry:
        return None
    outcomes: list[Outcome] = [
        known for known in ("fail", "error", "not_evaluable", "pass") if known in expected.values()
    ]
    return worst(outcomes) if outcomes else None


def _written(entry: Mapping[str, JsonValue], indent: int) -> str:
    """One entry as YAML; what is expected on one line, as people write it."""
    expected = entry["expect"]
    rest = {key: value for key, value in entry.items() if key != "expect"}
    gap = {"known_gap": rest.pop("known_gap")} if "known_gap" in rest else {}
    lines = dumped(rest).splitlines()
    if isinstance(expected, dict):
        inside = ", ".join(
            f"{name if _PLAIN.fullmatch(name) else repr(name)}: {value}" for name, value in expected.items()
        )
        lines.append(f"expect: {{{inside}}}")
    else:
        lines.append(f"expect: {expected}")
    lines += dumped(gap).splitlines() if gap else []
    begins = [" " * indent + "- ", *[" " * (indent + 2)] * (len(lines) - 1)]
    return "".join(f"{begin}{line}\n" for begin, line in zip(begins, lines, strict=True))


def check_place(rule_path: Path, named: Sequence[str]) -> None:
    """Check that tests can be written beside the rule in that file.

    Args:
        rule_path: the rule's file.
        named: the paths by which rules were named.

    Raises:
        NotPossible: it is a ready-made rule, or the folder is read-only.
    """
    folder = rule_path.resolve().parent
    root = builtin_rules().resolve()
    by_path = any(Path(name).exists() and folder.is_relative_to(Path(name).resolve()) for name in named)
    if folder.is_relative_to(root) and not by_path:
        inside = folder.relative_to(root)
        raise NotPossible(
            f"the rule in {rule_path} is ready-made, and an update would undo what is written there: copy it, "
            f"'mkdir -p rules/{inside.parent} && cp -r {folder} rules/{inside.parent}/', have rules.paths name that "
            f"in place of builtin:{inside.name}, and give --rules rules/{inside}"
        )
    places = [folder, folder / "traces", tests_path(rule_path)]
    if blocked := next((place for place in places if place.exists() and not os.access(place, os.W_OK)), None):
        raise NotPossible(f"{blocked}: no permission to write; give yourself the right, or copy the rule's folder")


def write(files: Mapping[Path, str]) -> None:
    """Write `files`, and the folders that they need.

    Raises:
        NotPossible: one cannot be written.
    """
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NotPossible(f"{path}: cannot be written: {error.strerror}") from None
