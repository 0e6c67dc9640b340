"""A suite of function schemas and test cases: ``{name, description, system_prompt, tools, test_cases}``.

A case has a prompt, the expected tool (or several, or null for none), its parameters, and how they are compared; fields
of several turns may be flat or in ``multi_turn_config``. A case without a prompt is left out.

Source: Maheidem/llm-benchmark-studio, routers/tool_eval.py (import and export); system_prompt and should_call_tool,
which its export leaves out, are kept here.
"""

from collections.abc import Callable, Iterator

from tracegrade.evaluate.criteria.regular_expressions import regex_expression
from tracegrade.evaluate.json_values import json_text
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.case import Case
from tracegrade.rule.rule import Rule
from tracegrade.suites.imported import (
    Imported,
    JsonObject,
    SuiteError,
    head,
    list_at,
    object_at,
    rule_id_of,
    text_at,
    unique_id,
)
from tracegrade.suites.written import wrong_fields, wrong_tools

# Of a case: what its evaluation takes, what a run of the suite takes, and where that may stand.
_COMPARED = ("expected_params", "scoring_config", "param_scoring", "should_call_tool")
_CHAIN = ("valid_prerequisites", "optimal_hops")
_RUN_ONLY = ("max_rounds", "mock_responses", "argument_source")
_SCORING_KEYS = ("mode", "epsilon")
CASE_FIELDS = frozenset(
    ("id", "prompt", "expected_tool", "category", "multi_turn", "multi_turn_config", *_COMPARED, *_CHAIN, *_RUN_ONLY)
)
"""The fields of a test case."""
TURN_FIELDS = (*_CHAIN, *_RUN_ONLY)
"""Those that only a case of several turns has."""
_KEPT_OF_SUITE = ("name", "description", "system_prompt", "tools")


def import_suite(document: JsonValue, rule_id: str = "") -> Imported:
    """A rule with a case for each test case.

    Args:
        document: the suite.
        rule_id: the rule's id; made of the suite's name if "".

    Raises:
        SuiteError: no name, no case, or a field of a wrong type.
    """
    suite = object_at(document, "the suite")
    name = text_at(suite.get("name"), "name").strip()
    if not name:
        raise SuiteError("name: expected the name of the suite, found nothing")
    check_tools(suite.get("tools"))
    cases: list[JsonValue] = []
    kept_cases: dict[str, JsonValue] = {}
    notes: list[str] = wrong_tools(list_at(suite.get("tools"), "tools"))
    for where, case_id, written in written_cases(suite, notes):
        case, kept_cases[case_id], said = read_case(case_id, written, where)
        cases.append(case)
        notes += [*said, *(f"{where}: {wrong}" for wrong in wrong_fields(written)[0])]
    if not cases:
        raise SuiteError(
            "test_cases: expected at least one case with a prompt; a suite of tools alone has none to judge"
        )
    rule = head(rule_id or rule_id_of(name), name, text_at(suite.get("description"), "description"))
    kept: JsonObject = {key: suite[key] for key in _KEPT_OF_SUITE if suite.get(key)}
    return Imported(rule | {"cases": cases}, kept | {"cases": kept_cases}, notes)


def written_cases(
    suite: JsonObject, notes: list[str], read: Callable[[JsonValue, str], JsonObject] = object_at
) -> Iterator[tuple[str, str, JsonObject]]:
    """The test cases of a suite's JSON.

    Args:
        suite: the JSON.
        notes: gets what is to be said of all of them, and which are left out.
        read: reads one.

    Returns:
        Where each is, its id, which no other has, and the case.

    Raises:
        SuiteError: a field of a wrong type.
    """
    taken: set[str] = set()
    unsaid = 0
    for place, item in enumerate(list_at(suite.get("test_cases"), "test_cases")):
        where = f"test_cases[{place}]"
        case = read(item, where)
        if not text_at(case.get("prompt"), f"{where}.prompt").strip():
            notes.append(f"{where} has no prompt and is left out")
            continue
        unsaid += is_unsaid(case)
        case_id = unique_id(case.get("id"), len(taken) + 1, taken)
        taken.add(case_id)
        yield where, case_id, case
    if unsaid:
        which = f"{unsaid} test case has" if unsaid == 1 else f"{unsaid} test cases have"
        notes.append(f"{which} no expected_tool: that is taken as null, no call expected")


def is_unsaid(case: JsonObject) -> bool:
    """Whether a test case says neither which tool is expected nor that none should be called."""
    return "expected_tool" not in case and case.get("should_call_tool") is not False


def check_tools(tools: JsonValue) -> list[JsonObject]:
    """The tools of a suite; raises `SuiteError` for what is no list of functions with names."""
    found: list[JsonObject] = []
    for place, tool in enumerate(list_at(tools, "tools")):
        described = object_at(tool, f"tools[{place}]")
        function = described.get("function")
        if described.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
            raise SuiteError(f"tools[{place}]: expected {{type: function, function: {{name, parameters}}}}")
        found.append(described)
    return found


def read_case(case_id: str, written: JsonObject, where: str) -> tuple[JsonObject, JsonObject, list[str]]:
    """The case of the rule that a test case makes, what is kept beside it, and what is to be said; not checked yet.

    Raises:
        SuiteError: `multi_turn_config` is no object, or a parameter is to be compared by an expression that is none.
    """
    case: JsonObject = {"id": case_id, "match": {"prompt": written["prompt"]}, "matchers": False}
    kept: JsonObject = {"category": written["category"]} if written.get("category") is not None else {}
    notes: list[str] = []
    config = _chain_config(written, where)
    if config is not None:
        case["evaluator"] = "multi-turn"
    case["expected_tool"] = written.get("expected_tool")
    given = {key: written[key] for key in _COMPARED if written.get(key) is not None}
    if isinstance(scoring := given.get("scoring_config"), dict):
        given["scoring_config"] = {key: scoring[key] for key in _SCORING_KEYS if key in scoring}
        if scoring.get("mode") == "regex":
            _check_expressions(given.get("expected_params"), where)
    if given.get("param_scoring") == "exact":
        del given["param_scoring"]  # which it is anyway
    should_call = given.pop("should_call_tool", None)
    if should_call is not None and config is None:
        if bool(should_call) is (case["expected_tool"] is not None):
            case["should_call_tool"] = bool(should_call)
        else:
            notes.append(f"{where}: should_call_tool and expected_tool contradict each other; the tool counts")
    case |= given
    if config is not None:
        case |= {key: config[key] for key in _CHAIN if key in config}
        kept |= {key: config[key] for key in _RUN_ONLY if key in config}
        if should_call is not None:
            kept["should_call_tool"] = should_call
    return case, kept, notes


def _check_expressions(params: JsonValue, where: str) -> None:
    """A score would take what is no expression for a plain text, and blame the model."""
    for name, value in params.items() if isinstance(params, dict) else ():
        try:
            regex_expression(json_text(value))
        except ValueError as error:
            raise SuiteError(f"{where}: expected_params.{name}: {error}; mend it, or set another mode") from None


def _chain_config(written: JsonObject, where: str) -> JsonObject | None:
    """What a case of several turns says, flat or nested, flat first; None for a case of one turn."""
    nested = written.get("multi_turn_config")
    if not written.get("multi_turn") and not nested:
        return None
    config = object_at(nested, f"{where}.multi_turn_config") if nested else {}
    both = (config, written)
    return {key: part[key] for part in both for key in TURN_FIELDS if key in part and _is_given(key, part[key])}


def _is_given(key: str, value: JsonValue) -> bool:
    """Whether `value` says something of a field of several turns: an empty object or list does, where one fits."""
    empties: JsonObject = {"valid_prerequisites": [], "mock_responses": {}, "argument_source": {}}
    return bool(value) or (key in empties and value == empties[key])


def export_suite(rule: Rule, kept: JsonObject) -> JsonObject:
    """The suite of a rule's cases; `kept` is what stands beside the rule, {} for nothing.

    Raises:
        SuiteError: the rule has no cases, or one that a suite cannot hold.
    """
    if rule.cases is None:
        raise SuiteError(f"{rule.id}: a rule without cases cannot be a suite")
    suite: JsonObject = {"name": kept.get("name") or rule.title or rule.id}
    if description := kept.get("description") or rule.description:
        suite["description"] = description
    if kept.get("system_prompt"):
        suite["system_prompt"] = kept["system_prompt"]
    beside = kept.get("cases")
    of_cases = beside if isinstance(beside, dict) else {}
    cases: list[JsonValue] = []
    for case in rule.cases.all:
        run_only = of_cases.get(case.id)
        cases.append(export_case(case, run_only if isinstance(run_only, dict) else {}))
    return suite | {"tools": kept.get("tools") or [], "test_cases": cases}


def export_case(case: Case, kept: JsonObject) -> JsonObject:
    """The test case that a case of a rule is; raises as `export_suite`."""
    written: JsonObject = dict(case.spec.written)
    match = written.get("match")
    if isinstance(apart := written.get("evaluate"), dict):
        written = apart
    prompt = match.get("prompt") if isinstance(match, dict) else None
    if not isinstance(prompt, str):
        raise SuiteError(f"case {case.id!r}: a suite needs the exact prompt of each case")
    evaluator = case.spec.evaluator.name
    if evaluator not in ("tool-case", "multi-turn"):
        raise SuiteError(f"case {case.id!r}: a suite holds tool-case and multi-turn, found {evaluator}")
    if written.get("matchers", True) and (word := next(_matchers_in(written.get("expected_params")), None)):
        raise SuiteError(f"case {case.id!r}: a suite holds plain values, found the matcher {word}")
    exported: JsonObject = {"id": case.id, "prompt": prompt}
    exported["expected_tool"] = written.get("expected_tool")
    exported |= {key: written[key] for key in _COMPARED if written.get(key) is not None}
    if evaluator == "multi-turn":
        exported["multi_turn"] = True
        exported |= {key: written[key] for key in _CHAIN if written.get(key) is not None}
    return exported | kept


def _matchers_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (key for key in value if key.startswith("$"))
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _matchers_in(item)
