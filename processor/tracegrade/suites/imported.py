"""What every import gives, and how its files are read and written."""

import json
import re
import sys
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import dumped, parse
from tracegrade.evaluate.criteria.semantic import NOT_LOADED, comparing_by
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue, encodable
from tracegrade.rule.rule import Rule

# Beside an imported rule: what of its suite only a run needs.
SUITE_FILE = "suite.json"

JsonObject = dict[str, JsonValue]


class SuiteError(TraceGradeError):
    """A suite cannot be read or written; says where, what was found and what was expected."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A rule as its file will hold it; ``kept`` is what stands beside it, ``notes`` what was left out and why."""

    rule: JsonObject
    kept: JsonObject
    notes: list[str] = field(default_factory=list)


def read_document(text: str) -> JsonValue:
    """One JSON document, or a list of them where there is one a line.

    Raises:
        SuiteError: it is neither.
    """
    try:
        return encodable(_loads(text))
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise SuiteError(f"not JSON: {error}") from None
    found: list[JsonValue] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(encodable(_loads(line)))
        except ValueError as error:
            raise SuiteError(f"not JSON, and line {number} is not JSON either: {error}") from None
    return found


def _loads(text: str) -> JsonValue:
    value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def object_at(value: JsonValue, where: str) -> JsonObject:
    """`value`, which must be an object."""
    if not isinstance(value, dict):
        raise SuiteError(f"{where}: expected an object, found {_cut_json(value)}")
    return value


def list_at(value: JsonValue, where: str) -> list[JsonValue]:
    """`value`, which must be a list; nothing is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise SuiteError(f"{where}: expected a list, found {_cut_json(value)}")
    return value


def text_at(value: JsonValue, where: str) -> str:
    """`value`, which must be a text; nothing is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SuiteError(f"{where}: expected a text, found {_cut_json(value)}")
    return value


def _cut_json(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def unique_id(wanted: JsonValue, number: int, taken: Container[str]) -> str:
    """The id of a case: its own, else its number; with a suffix where another has it."""
    base = str(wanted)[:190] if isinstance(wanted, str | int) and str(wanted).strip() else f"case-{number}"
    suffix, found = 1, base
    while found in taken:
        suffix += 1
        found = f"{base}-{suffix}"
    return found


def rule_id_of(name: str) -> str:
    """A rule's id from a suite's name."""
    return "-".join(re.findall("[a-z0-9]+", name.lower()))[:100].strip("-") or "imported-suite"


def head(rule_id: str, title: str, description: str) -> JsonObject:
    """The first fields of an imported rule."""
    described: JsonObject = {"id": rule_id, "title": title[:200]}
    if description:
        described["description"] = description
    return described | {"status": "experimental", "scope": "agent", "tags": ["imported"]}


def read_text(source: str) -> str:
    """The text of a file, or of standard input for ``-``; raises `SuiteError` for what cannot be read."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SuiteError(f"{source}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SuiteError(f"{source}: expected text in UTF-8") from None


def write_rule(imported: Imported, folder: Path, replace: bool) -> Path:
    """Write an imported rule to ``imported/ID`` in `folder`, beside it what only a run needs.

    Args:
        imported: the rule, and what is kept of its suite.
        folder: where rules are.
        replace: whether a rule that is there already is written over.

    Returns:
        The rule's file.

    Raises:
        SuiteError: there is a rule already.
        FileError: what was imported makes no rule.
    """
    place = folder / "imported" / str(imported.rule["id"])
    path = place / "rule.yaml"
    text = dumped(imported.rule)
    with comparing_by(NOT_LOADED):  # what it needs is asked for when it judges
        validate(parse(text, str(path)), Rule)  # nothing is written that no rule can be
    if path.exists() and not replace:
        raise SuiteError(f"{path}: a rule of this id exists already; --replace overwrites it, --id gives another id")
    place.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    kept = json.dumps(imported.kept, indent=2, ensure_ascii=False) + "\n"
    (place / SUITE_FILE).write_text(kept, encoding="utf-8")
    return path
