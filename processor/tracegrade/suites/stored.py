"""Suites as the store holds them: read from a suite's JSON, given back as such, and made into what a run takes.

A case is checked when it comes: what is stored can be run. It is stored as an export writes it, so that importing what
was exported changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from pydantic import ValidationError

from tracegrade.display import json_text
from tracegrade.document.document import Document
from tracegrade.document.problem import did_you_mean, dotted
from tracegrade.document.validate import problems
from tracegrade.evaluate.criteria.semantic import NOT_LOADED, comparing_by
from tracegrade.model.json_value import JsonValue, encodable
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.rule.rule import Rule
from tracegrade.rule.semantic_model import why_no_model
from tracegrade.suites.bfcl import is_bfcl
from tracegrade.suites.imported import (
    JsonObject,
    SuiteError,
    head,
    object_at,
    rule_id_of,
    text_at,
    unique_id,
)
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.suites.suite import Suite, runnable_case, suite_of_document
from tracegrade.suites.tool_suite import (
    CASE_FIELDS,
    TURN_FIELDS,
    check_tools,
    export_case,
    is_unsaid,
    read_case,
    written_cases,
)
from tracegrade.suites.written import contradiction, unusual_names, wrong_fields, wrong_tools

MOST_CASES = 10_000
MOST_TOOLS = 1000
LONGEST_NAME = 200
LONGEST_TEXT = 100_000
_DEEPEST = 100
# So many parts of a path lead to a field of a test case, or of a tool's function; one to any other.
_PARTS: dict[str | int, int] = {"test_cases": 3, "tools": 4}
SUITE_FIELDS = ("name", "description", "system_prompt", "tools", "test_cases")


@dataclass(frozen=True, slots=True)
class Read:
    """A suite that was read; ``notes`` say what was left out of it, and why."""

    suite: StoredSuite
    notes: Sequence[str] = field(default_factory=list)


def read_suite(document: JsonValue, tenant: str, id_: str, now_ns: int, *, strict: bool = False) -> Read:
    """The suite that a suite's JSON is, to be stored as `id_`. It may have no cases yet, and no tools.

    Args:
        document: the suite.
        tenant: whose it will be.
        id_: its id.
        now_ns: when it is made.
        strict: refuse fields that a suite or a case does not have, and cases without a prompt, or which say nothing of
            what is expected. Files of other systems have such: without `strict`, they are left out, and no call is
            expected.

    Raises:
        SuiteError: no name, a field of a wrong type, a case that could not be run, or more than a bound.
    """
    if is_bfcl(document):
        raise SuiteError(
            "a list of BFCL cannot be run; 'tracegrade rules import' makes a rule of it; expected a suite with tools"
        )
    written = object_at(storable(document), "the suite")
    unknown = [key for key in written if key not in SUITE_FIELDS]
    if strict and unknown:
        raise SuiteError(f"{unknown[0]!r} is not a field of a suite{did_you_mean(unknown[0], SUITE_FIELDS)}")
    notes = [f"{key!r} is not known and left out" for key in unknown]
    suite = StoredSuite(tenant=tenant, id=id_, name="", created_ns=now_ns, updated_ns=now_ns)
    fields = {key: written[key] for key in SUITE_FIELDS if key in written and key != "test_cases"}
    suite = with_fields(suite, {"name": None, "tools": None, **fields}, now_ns)
    notes += unusual_names(_names_of(suite.tools))
    cases: list[StoredCase] = []
    for where, case_id, case in written_cases(written, notes, _known if strict else object_at):
        unknown = [key for key in case if key not in CASE_FIELDS]
        notes += [f"{where}: {key!r} is not known and left out{did_you_mean(key, CASE_FIELDS)}" for key in unknown]
        if (idle := _idle_field(case)) is not None:
            notes.append(f"{where}: {idle} is left out: it is for cases of several turns, which say multi_turn")
        notes += [f"{where}: {text} and left out" for text in _check_fields(case, where)]
        stored, said = _checked(case_id, case, where)
        if strict:
            _check_said(case, where)
        cases.append(stored)
        notes += said
    return Read(replace(suite, cases=_bounded(cases)), notes)


def replaced(suite: StoredSuite, document: JsonValue, now_ns: int) -> Read:
    """`suite` with the tools and cases of a suite's JSON in place of its own, and the same id.

    Name, description and system prompt that the JSON does not have stay as they are. Raises as `read_suite`.
    """
    written = object_at(document, "the suite")
    texts: JsonObject = {"name": suite.name, "description": suite.description, "system_prompt": suite.system_prompt}
    read = read_suite({**texts, **written}, suite.tenant, suite.id, now_ns)
    return replace(
        read, suite=replace(read.suite, created_ns=suite.created_ns, updated_ns=max(now_ns, suite.created_ns))
    )


def with_fields(suite: StoredSuite, given: JsonObject, now_ns: int) -> StoredSuite:
    """`suite` with the fields that are `given` (name, description, system_prompt, tools) in place of its own.

    Raises:
        SuiteError: a field of a wrong type, no name, or more than a bound.
    """
    given = object_at(storable(given), "the suite")
    changed: dict[str, Any] = {}
    if "name" in given:
        changed["name"] = name = text_at(given["name"], "name").strip()
        if not name:
            raise SuiteError("name: expected the name of the suite, found nothing")
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise SuiteError(f"name: expected at most {LONGEST_NAME} characters in one line, found {name[:60]!r}")
    for key in ("description", "system_prompt"):
        if key in given:
            changed[key] = text = text_at(given[key], key)
            if len(text) > LONGEST_TEXT or "\0" in text:
                raise SuiteError(f"{key}: expected at most {LONGEST_TEXT} characters, none of them NUL")
    tools = check_tools(given["tools"]) if "tools" in given else suite.tools
    if len(tools) > MOST_TOOLS:
        raise SuiteError(f"tools: expected at most {MOST_TOOLS}, found {len(tools)}")
    if list(tools) != list(suite.tools) and (wrong := wrong_tools(tools)):
        raise SuiteError(wrong[0])
    return replace(suite, tools=tools, updated_ns=max(now_ns, suite.created_ns), **changed)


def with_cases(suite: StoredSuite, written: Sequence[JsonValue], now_ns: int) -> StoredSuite:
    """`suite` with further cases at its end.

    Raises:
        SuiteError: one is not a case that could be run, or says what no case says; more than a bound.
    """
    cases = list(suite.cases)
    taken = {case.id for case in cases}
    number = _next_number(taken)
    for place, item in enumerate(written):
        where = f"cases[{place}]" if len(written) > 1 else "the case"
        case = _known(item, where)
        if (wanted := case.get("id")) is not None and str(wanted) in taken:
            raise SuiteError(f"{where}: the suite has a case {wanted!r} already; leave the id out for a new one")
        case_id = unique_id(wanted, number, taken)
        number += wanted is None
        taken.add(case_id)
        cases.append(_checked(case_id, case, where)[0])
        _check_said(case, where)
    return replace(suite, cases=_bounded(cases), updated_ns=max(now_ns, suite.created_ns))


def with_case(suite: StoredSuite, case_id: str, written: JsonValue, now_ns: int) -> StoredSuite:
    """`suite` with `written` in place of the case `case_id`, which keeps its id and place.

    A value that the case has already is taken: it was stored before values were held to what they may be now.

    Raises:
        SuiteError: as of `with_cases`, or another id is written.
    """
    before = next((known.body for known in suite.cases if known.id == case_id), {})
    case = _known(written, "the case", before)
    if "expected_tool" in before:
        _check_said(case, "the case")
    if case.get("id") not in (None, case_id):
        raise SuiteError(f"the case: its id {case_id!r} cannot be changed, found {case['id']!r}")
    changed, _ = _checked(case_id, case, "the case")
    cases = [changed if known.id == case_id else known for known in suite.cases]
    return replace(suite, cases=cases, updated_ns=max(now_ns, suite.created_ns))


def with_case_fields(suite: StoredSuite, case: StoredCase, given: JsonValue, now_ns: int) -> StoredSuite:
    """`suite` with the fields that are `given` in place of those of `case`; null clears one, what is left out stays.

    Fields of several turns go when ``multi_turn`` is given as false or null.

    Raises:
        SuiteError: as of `with_case`, or nothing is given.
    """
    fields = object_at(given, "the case")
    if not fields:
        raise SuiteError("the case: expected at least one of its fields, found nothing to change")
    kept = dict(case.body)
    if "expected_tool" in fields and "should_call_tool" not in fields:
        kept.pop("should_call_tool", None)  # the tool says it anyway
    if "multi_turn" in fields and not fields["multi_turn"]:
        kept = {key: value for key, value in kept.items() if key not in TURN_FIELDS}
    if isinstance(turns := fields.get("multi_turn_config"), dict):
        kept = {key: value for key, value in kept.items() if key not in turns}  # else what was there would count
    return with_case(suite, case.id, kept | fields, now_ns)


def case_document(case: StoredCase) -> JsonObject:
    """A case as a suite's JSON has it."""
    return {"id": case.id, **case.body}


def document_of(suite: StoredSuite) -> JsonObject:
    """The suite as JSON that can be imported."""
    texts: JsonObject = {
        key: text for key, text in (("description", suite.description), ("system_prompt", suite.system_prompt)) if text
    }
    return {
        "name": suite.name,
        **texts,
        "tools": [*suite.tools],
        "test_cases": [case_document(case) for case in suite.cases],
    }


def stored_source(id_: str) -> str:
    """What a run of a stored suite names as its source."""
    return f"suite:{id_}"


def runnable_suite(suite: StoredSuite, rule_paths: Sequence[str] = (), reading: RuleReading = FILES_ALONE) -> Suite:
    """The suite as a run takes it: the same rule, case ids and hash as of its export.

    Args:
        suite: the stored one.
        rule_paths: further rules that judge every case.
        reading: how rule files are read.

    Raises:
        SuiteError: it has no cases, or what this version cannot run.
        FileError: a rule that cannot be read.
    """
    return suite_of_document(document_of(suite), stored_source(suite.id), rule_paths, reading)


def storable(value: JsonValue, *path: str | int) -> JsonValue:
    """`value` as any store can hold it; `path` says where it stands.

    Raises:
        SuiteError: it is nested too deeply, or has a number that is none in JSON, or a text that is none in UTF-8.
    """
    of_field = _PARTS.get(path[0], 1) if path else 0
    if isinstance(value, list | dict) and len(path) >= of_field + _DEEPEST:
        where = _at(path[:of_field])
        raise SuiteError(f"{where}expected at most {_DEEPEST} objects and lists within each other, found more")
    if isinstance(value, float) and not isfinite(value):
        raise SuiteError(f"{_at(path)}expected JSON, found {value}, which is not a number of JSON")
    if isinstance(value, list):
        return [storable(item, *path, place) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(storable(key, *path)): storable(member, *path, key) for key, member in value.items()}
    if isinstance(value, str) and encodable(value) != value:
        raise SuiteError(f"{_at(path)}expected text that UTF-8 can hold, found half of a surrogate pair")
    return value


def _at(path: tuple[str | int, ...]) -> str:
    return f"{encodable(dotted(path))}: " if path else ""


def notes_of(suite: StoredSuite, reading: RuleReading) -> list[str]:
    """What of a stored suite would be refused if it were sent now, or if it were run with these settings.

    Also names of tools that few providers take.
    """
    notes = [*wrong_tools(suite.tools), *unusual_names(_names_of(suite.tools))]
    for case in suite.cases:
        notes += [f"case {case.id!r}: {wrong}" for wrong in wrong_fields(case.body)[0]]
    return [*notes, *unset_needs(suite.cases, reading)]


def _names_of(tools: Iterable[JsonObject]) -> list[str]:
    functions = [function for tool in tools if isinstance(function := tool.get("function"), dict)]
    return [name for function in functions if isinstance(name := function.get("name"), str)]


def _check_said(case: JsonObject, where: str) -> None:
    """Refuse a case that does not say what is expected."""
    if is_unsaid(case):
        raise SuiteError(
            f"{where}: expected_tool: expected the tool that should be called, or that no call is expected (null, or "
            "should_call_tool: false), found nothing"
        )


def _known(item: JsonValue, where: str, before: JsonObject | None = None) -> JsonObject:
    """A case that is sent; what it has of `before`, the case as it is stored, is not checked again."""
    written = object_at(item, where)
    try:
        case = object_at(storable(written), where)
    except SuiteError as error:
        raise SuiteError(f"{where}: {error}") from None
    if (unknown := next((key for key in case if key not in CASE_FIELDS), None)) is not None:
        raise SuiteError(f"{where}: {unknown!r} is not a field of a case{did_you_mean(unknown, CASE_FIELDS)}")
    if not text_at(case.get("prompt"), f"{where}: prompt").strip():
        raise SuiteError(f"{where}: prompt: expected what a user says to the model, found nothing")
    new = {key: value for key, value in case.items() if before is None or not _same(value, before.get(key))}
    if unknown_parts := _check_fields(new, where):
        raise SuiteError(f"{where}: {unknown_parts[0]}")
    if (idle := _idle_field(case)) is not None:
        raise SuiteError(f"{where}: {idle}: is for cases of several turns; set multi_turn, or leave it out")
    if new and (opposite := contradiction(case)) is not None:
        raise SuiteError(f"{where}: {opposite}")
    return case


def _same(one: JsonValue, other: JsonValue) -> bool:
    return json_text(one) == json_text(other)  # true is not 1


def _check_fields(case: JsonObject, where: str) -> list[str]:
    """Refuse a field with a value that none can have; returns keys within fields that are not known, as sentences."""
    wrong, unknown = wrong_fields(case)
    if wrong:
        raise SuiteError(f"{where}: {wrong[0]}")
    return unknown


def _idle_field(case: JsonObject) -> str | None:
    """A field that is of cases of several turns, and given in one that is none."""
    if case.get("multi_turn") or case.get("multi_turn_config"):
        return None
    return next((key for key in TURN_FIELDS if case.get(key) is not None), None)


def _checked(case_id: str, written: JsonObject, where: str) -> tuple[StoredCase, list[str]]:
    """The case as it is stored, and what is to be said of it.

    Raises:
        SuiteError: it could not be run.
    """
    if not case_id.isprintable():
        raise SuiteError(f"{where}: id: expected characters that can be printed, found {case_id[:60]!r}")
    case, kept, notes = read_case(case_id, written, where)
    document = head(rule_id_of(""), "a suite", "") | {"cases": [case]}
    try:
        with comparing_by(NOT_LOADED):  # what it needs is asked for when it is run
            rule = Rule.model_validate(document)
    except ValidationError as error:
        first = problems(Document(where, document), error, Rule)[0].message
        raise SuiteError(f"{where}: {first.removeprefix('cases[0]').lstrip('.: ')}") from None
    assert rule.cases is not None, "it has one"
    (checked,) = rule.cases.all
    try:
        runnable_case(checked, kept)
        exported = export_case(checked, kept)
    except SuiteError as error:
        raise SuiteError(str(error).replace(f"case {case_id!r}", where, 1)) from None
    del exported["id"]
    return StoredCase(case_id, exported), notes


def _bounded(cases: list[StoredCase]) -> list[StoredCase]:
    if len(cases) > MOST_CASES:
        raise SuiteError(f"test_cases: expected at most {MOST_CASES}, found {len(cases)}")
    return cases


def _next_number(taken: Iterable[str]) -> int:
    """The number for a new case, higher than those of the others: an id that was deleted is not soon another's."""
    numbers = [int(tail) for name in taken if (tail := name.removeprefix("case-")).isdecimal() and len(tail) < 10]
    return max([*numbers, 0]) + 1


def unset_needs(cases: Iterable[StoredCase], reading: RuleReading) -> list[str]:
    """A sentence for each of `cases` that cannot be judged with these settings: the case, and the setting to set.

    No model is loaded: that a folder holds none shows when the suite is run.
    """
    why = why_no_model(reading.semantic_model)
    if why is None:
        return []
    return [
        f"case {case.id!r}: param_scoring: semantic needs a model of text embeddings: {why}"
        for case in cases
        if case.body.get("param_scoring") == "semantic" and case.body.get("scoring_config") is None
    ]
