"""A suite as a run takes it: what each case says to a model, with which tools, and how several turns go on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracegrade.document.document import Document
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import dumped, parse
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.model.json_value import JsonValue
from tracegrade.model.short_hash import short_hash
from tracegrade.rule.case import Case, item_of
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.suites.bfcl import is_bfcl
from tracegrade.suites.imported import (
    SUITE_FILE,
    JsonObject,
    SuiteError,
    list_at,
    object_at,
    read_document,
    read_text,
    text_at,
)
from tracegrade.suites.tool_suite import import_suite

DEFAULT_MAX_ROUNDS = 5
_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One case: ``expected`` are the names that end a chain, ``mocks`` what tools answer in it, by name.

    ``criteria`` is the item that judges it, as the rule has it. ``max_rounds`` is how often the model is asked at most,
    1 for a case of one turn.
    """

    id: str
    prompt: str
    criteria: Mapping[str, JsonValue]
    expected: Sequence[str] = ()
    max_rounds: int = 1
    mocks: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: ``rule`` judges its cases, within ``rule_set``; ``hash`` (16 hex digits) is of what models are told."""

    rule: Rule
    rule_set: RuleSet
    source: str
    system_prompt: str
    tools: Sequence[JsonObject]
    tool_names: Sequence[str]
    cases: Sequence[SuiteCase]
    hash: str
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The id of its rule."""
        return self.rule.id


def load_suite(source: str, rule_paths: Sequence[str] = (), reading: RuleReading = FILES_ALONE) -> Suite:
    """The suite at `source`.

    Args:
        source: a rule folder or file with ``suite.json`` beside it, or a suite as JSON.
        rule_paths: further rules that judge every case.
        reading: how rule files are read.

    Raises:
        SuiteError: no suite, or a case that cannot be run.
        FileError: a rule that cannot be read.
    """
    rule, path, kept, notes = _from_json(source, reading) if _is_json(source) else _from_rule(source, reading)
    where = f"{Path(path).with_name(SUITE_FILE)}" if path != source else source
    return _made(rule, path, kept, source, where, reading.load(rule_paths), notes)


def suite_of_document(
    document: JsonValue, source: str, rule_paths: Sequence[str] = (), reading: RuleReading = FILES_ALONE
) -> Suite:
    """The suite that `document` is; `source` says where it is from. Otherwise as `load_suite`."""
    rule, kept, notes = _imported(document, source, reading)
    return _made(rule, source, kept, source, source, reading.load(rule_paths), notes)


def _made(
    rule: Rule, path: str, kept: JsonObject, source: str, where: str, others: RuleSet, notes: Sequence[str]
) -> Suite:
    if (other := others.rule(rule.id)) is not None:
        raise SuiteError(f"{others.paths[other.id]}: has the id of the suite, {rule.id!r}; leave it out of --rules")
    if rule.cases is None:
        raise SuiteError(f"{path}: rule {rule.id!r} has no cases; expected a suite, as 'rules import' makes one")
    if "bfcl" in kept:
        raise SuiteError(f"{path}: lists of BFCL can be imported and judged, and not run; expected a suite with tools")
    tools = [object_at(tool, f"{where}: tools") for tool in list_at(kept.get("tools"), f"{where}: tools")]
    beside = object_at(kept.get("cases") or {}, f"{where}: cases")
    cases = [
        runnable_case(case, object_at(beside.get(case.id) or {}, f"{where}: cases.{case.id}"))
        for case in rule.cases.all
    ]
    system_prompt = text_at(kept.get("system_prompt"), f"{where}: system_prompt")
    told: JsonValue = [system_prompt, [*tools], {case.id: [case.prompt, beside.get(case.id)] for case in cases}]
    return Suite(
        rule,
        RuleSet([*others.rules, rule], {**others.documents, rule.id: Document(path, rule.written)}),
        source,
        system_prompt,
        tools,
        [_name_of(tool, f"{where}: tools[{place}]") for place, tool in enumerate(tools)],
        cases,
        short_hash(json.dumps(told, sort_keys=True).encode()),
        notes,
    )


def _is_json(source: str) -> bool:
    if source == "-" or not source.endswith(".json"):
        return source == "-"
    # Beside a rule, it has what of the suite is not in the rule; anybody may call a suite so, too.
    place = Path(source)
    return place.name != SUITE_FILE or not any(place.parent.glob("*rule.yaml"))


def _from_json(source: str, reading: RuleReading) -> tuple[Rule, str, JsonObject, Sequence[str]]:
    rule, kept, notes = _imported(read_document(read_text(source)), source, reading)
    return rule, source, kept, notes


def _imported(document: JsonValue, source: str, reading: RuleReading) -> tuple[Rule, JsonObject, Sequence[str]]:
    if is_bfcl(document):
        raise SuiteError(
            f"{source}: lists of BFCL can be imported and judged, and not run; expected a suite with tools"
        )
    try:
        imported = import_suite(document)
    except SuiteError as error:
        raise SuiteError(f"{source}: {error}") from None
    with reading.in_force():
        rule = validate(parse(dumped(imported.rule), source), Rule)
    return rule, imported.kept, [f"{source}: {note}" for note in imported.notes]


def _from_rule(source: str, reading: RuleReading) -> tuple[Rule, str, JsonObject, Sequence[str]]:
    place = Path(source)
    found = reading.load([place.parent if place.name == SUITE_FILE else place])
    suites = [rule for rule in found.rules if Path(found.paths[rule.id]).with_name(SUITE_FILE).exists()]
    if len(suites) != 1:
        which = ": " + ", ".join(found.paths[rule.id] for rule in suites) if suites else ""
        raise SuiteError(
            f"{source}: expected one rule with {SUITE_FILE} beside it, as 'rules import' writes both, "
            f"found {len(suites)}{which}"
        )
    path = found.paths[suites[0].id]
    beside = Path(path).with_name(SUITE_FILE)
    return suites[0], path, object_at(read_document(read_text(str(beside))), str(beside)), ()


def _name_of(tool: JsonObject, where: str) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise SuiteError(f"{where}: expected {{type: function, function: {{name, parameters}}}}")
    return name


def runnable_case(case: Case, kept: JsonObject) -> SuiteCase:
    """What a run takes of a rule's case and of what is kept beside it; raises `SuiteError` for what cannot be run."""
    written = case.spec.written
    match = written.get("match")
    prompt = match.get("prompt") if isinstance(match, Mapping) else None
    if not isinstance(prompt, str):
        raise SuiteError(f"case {case.id!r}: a run needs the exact prompt of each case, in match.prompt")
    criteria = item_of(written)
    if case.spec.evaluator.name != "multi-turn":
        return SuiteCase(case.id, prompt, criteria)
    where = f"case {case.id!r}"
    rounds = kept.get("max_rounds", DEFAULT_MAX_ROUNDS)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds <= _MOST_ROUNDS:
        raise SuiteError(f"{where}: max_rounds: expected a whole number from 1 to {_MOST_ROUNDS}, found {rounds!r}")
    expected = criteria.get("expected_tool")
    mocks = object_at(kept.get("mock_responses") or {}, f"{where}: mock_responses")
    return SuiteCase(case.id, prompt, criteria, () if expected is None else listed_names(expected), rounds, mocks)
