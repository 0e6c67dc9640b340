"""A recorded trace as a case of a suite: its prompt, and the calls that are expected for it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracegrade.assemble.settings import TracesSettings
from tracegrade.display import json_text
from tracegrade.extract.extract import extract
from tracegrade.extract.trace_context import ExtractionContext
from tracegrade.history.promote.chosen import Recorded, failed_rules
from tracegrade.history.promote.redacted import Redacted, redacted
from tracegrade.history.promote.verdict import judged_as_files, outcomes
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.errors import NotPossible
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace import Trace
from tracegrade.rule.rule import Rule
from tracegrade.rule.tool_aliases import ToolAliases
from tracegrade.suites.imported import JsonObject, list_at, object_at, read_document, read_text
from tracegrade.suites.store.suites import StoredSuite
from tracegrade.suites.stored import with_cases, with_fields
from tracegrade.suites.tool_suite import import_suite

_Call = tuple[list[str], JsonValue]  # any of these tools, and its arguments; None for any


@dataclass(frozen=True, slots=True)
class PromotedCase:
    """A case as a suite holds it, the definitions of the tools of its trace, and what was redacted of both."""

    case: JsonObject
    tools: list[JsonValue]
    redaction: Redacted

    @property
    def id(self) -> str:
        """Of the case, made of the trace's."""
        return str(self.case["id"])


def suite_case(recorded: Recorded, rule: Rule | None, settings: TracesSettings, redacts: bool) -> PromotedCase:
    """The case that a trace makes.

    Without a rule, and where the trace passes it, what was called is expected; where it fails, what the rule expects.

    Raises:
        NotPossible: the trace failed when it was judged and no rule is named, the rule names no calls, or the prompt
            cannot be read.
    """
    fails = False
    if rule is None:
        if failed := failed_rules(recorded.stored):
            raise NotPossible(
                f"trace {recorded.id} failed {', '.join(failed)}, so what it did is not what is expected; give --rule "
                f"{failed[0]} to expect what that rule does"
            )
    else:
        before = outcomes(judged_as_files(recorded.traces, rule, settings))
        fails = any(outcome == "fail" for _, _, outcome, *_ in before)

    def says_the_same(traces: list[Trace]) -> bool:
        return rule is None or outcomes(judged_as_files(traces, rule, settings)) == before

    name = rule.id if rule is not None else ""
    redaction = redacted(recorded.traces, (), says_the_same, name) if redacts else Redacted(recorded.traces)
    extraction = extract(redaction.traces[0], ToolAliases(settings.tool_aliases))
    run = next((one for one in extraction.runs if one.prompt), None)
    if run is None or not run.prompt:
        raise NotPossible(f"the prompt of trace {recorded.id} cannot be read, and a case of a suite needs one")
    calls = _calls_of_rule(rule) if rule is not None and fails else _calls_made(run)
    definitions = ExtractionContext(extraction).tool_definitions()
    tools: list[JsonValue] = [
        {"type": "function", "function": {"name": tool, **({"parameters": schema} if schema else {})}}
        for tool, schema in definitions.items()
    ]
    return PromotedCase(_case(f"trace-{recorded.id}", run.prompt, calls), tools, redaction)


def _calls_made(run: AgentRun) -> list[_Call]:
    return [([call.name], call.arguments if isinstance(call.arguments, dict) else None) for call in run.calls]


def _calls_of_rule(rule: Rule) -> list[_Call]:
    """The calls that the rule expects, of the first of its evaluations that names some."""
    for spec in (*rule.evaluate, *rule.then):
        expected = spec.evaluator.expected_calls(spec.criteria, spec.settings)
        if expected is not None and expected.calls:
            return [([*call.names], _literal(call.arguments)) for call in expected.calls]
    raise NotPossible(
        f"rule {rule.id} names no calls that it expects, so a suite cannot hold what is right; promote the trace "
        "beside the rule, without --suite"
    )


def _literal(arguments: JsonValue) -> JsonValue:
    """Arguments without those that are matchers, which a suite cannot hold."""
    if not isinstance(arguments, dict):
        return None
    return {key: value for key, value in arguments.items() if '"$' not in json_text(value)}


def _case(case_id: str, prompt: str, calls: Sequence[_Call]) -> JsonObject:
    case: JsonObject = {"id": case_id, "prompt": prompt, "expected_tool": None}
    if not calls:
        return case
    names, arguments = calls[-1]
    case["expected_tool"] = names[0] if len(names) == 1 else [*names]
    if isinstance(arguments, dict) and arguments:
        case["expected_params"] = arguments
    if len(calls) > 1:
        before = dict.fromkeys(name for some, _ in calls[:-1] for name in some)
        case |= {"multi_turn": True, "valid_prerequisites": [*before], "optimal_hops": len(calls)}
    return case


def with_promoted(suite: StoredSuite, made: Sequence[PromotedCase], now_ns: int) -> StoredSuite:
    """`suite` with these cases, and the tools that it does not know yet; without cases that are there already.

    Raises:
        SuiteError: as `with_cases`.
    """
    there = {case.id for case in suite.cases}
    new = list({case.id: case for case in made if case.id not in there}.values())
    tools = {json_text(_name_of(tool)): tool for tool in suite.tools}
    for case in new:
        tools = {json_text(_name_of(tool)): tool for tool in case.tools if isinstance(tool, dict)} | tools
    return with_cases(with_fields(suite, {"tools": [*tools.values()]}, now_ns), [case.case for case in new], now_ns)


@dataclass(slots=True)
class SuiteFile:
    """A file of a suite, ``{name, tools, test_cases}``; ``changed`` says whether it is to be written."""

    path: Path
    suite: JsonObject
    changed: bool = False

    @classmethod
    def at(cls, path: Path) -> "SuiteFile":
        """The suite at `path`, or an empty one of its name.

        Raises:
            SuiteError: what is there is no suite.
        """
        if not path.exists():
            return cls(path, {"name": path.stem, "tools": [], "test_cases": []})
        suite = object_at(read_document(read_text(str(path))), str(path))
        import_suite(suite)
        return cls(path, suite)

    def add(self, made: PromotedCase) -> bool:
        """Add a case, and the tools that are not known yet; False where a case of this id is there already."""
        cases, tools = list_at(self.suite.get("test_cases"), "test_cases"), list_at(self.suite.get("tools"), "tools")
        if any(isinstance(case, dict) and case.get("id") == made.id for case in cases):
            return False
        known = {json_text(_name_of(tool)) for tool in tools}
        tools = [*tools, *(tool for tool in made.tools if json_text(_name_of(tool)) not in known)]
        self.suite = self.suite | {"tools": tools, "test_cases": [*cases, made.case]}
        import_suite(self.suite)  # what cannot be imported is not written
        self.changed = True
        return True

    def text(self) -> str:
        """The file's text."""
        return json.dumps(self.suite, indent=2, ensure_ascii=False) + "\n"


def _name_of(tool: JsonValue) -> JsonValue:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None
