"""What may go wrong when a stored suite is run, told before it is: common troubles of suites, each with what to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracegrade.display import count
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.mcp.tools import FROM_SERVER
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.suites.suite import Suite

_SHOWN = 5
_FEW_WORDS = 3


def hints_of(suite: StoredSuite) -> list[str]:
    """Sentences on what to look at, the most serious first; [] when nothing was found."""
    tools = {str(function["name"]): function for tool in suite.tools if isinstance(function := tool["function"], dict)}
    return [hint for check in (_unknown_tools, _unknown_parameters, _vague_prompts) for hint in check(suite, tools)]


def hints_of_run(suite: Suite) -> list[str]:
    """Of a suite as a run takes it, from a file or the store, what makes cases of it fail with every model."""
    return [
        *_uncallable(
            {case.id: _expected_tools(case.criteria.get("expected_tool")) for case in suite.cases}, suite.tool_names
        )
    ]


def _unknown_tools(suite: StoredSuite, tools: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    return _uncallable({case.id: _expected(case) for case in suite.cases}, tools)


def _uncallable(expected: Mapping[str, Sequence[str]], tools: Iterable[str]) -> Iterator[str]:
    """Of the tools that each case expects; names are compared without regard to case, as a score compares them."""
    known = {name.lower() for name in tools}
    found = [id_ for id_, names in expected.items() if names and not any(name.lower() in known for name in names)]
    if found:
        yield f"No tool of the suite has the name that is expected in {_named(found)}: no model can call it."


def _unknown_parameters(suite: StoredSuite, tools: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    schemas = {name.lower(): tool.get("parameters") for name, tool in tools.items()}
    found: list[str] = []
    for case in suite.cases:
        wanted = case.body.get("expected_params")
        known = [_properties(schemas.get(name.lower())) for name in _expected(case) if name.lower() in schemas]
        if isinstance(wanted, dict) and known and all(names is not None and wanted.keys() - names for names in known):
            found.append(case.id)
    if found:
        yield (
            f"Parameters are expected in {_named(found)} that the schema of the tool does not have: models that keep "
            "to it will not give them."
        )


def _vague_prompts(suite: StoredSuite, tools: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Prompts made of a server's descriptions, which are a common reason for suites of MCP tools to fail."""
    told = [text.lower() for tool in tools.values() if isinstance(text := tool.get("description"), str) and text]
    found: list[str] = []
    for case in suite.cases:
        prompt = str(case.body["prompt"]).strip().rstrip(".").lower()
        if len(prompt.split()) < _FEW_WORDS or any(prompt in text for text in told):
            found.append(case.id)
    if found:
        yield (
            f"What is asked in {_named(found)} is a tool's description, or a word or two, which may be too vague for a "
            "model to act on: write what a user would say, with the values that are expected, and run with tool_choice "
            "'required'."
        )
    elif suite.description.startswith(FROM_SERVER) and not suite.cases:
        yield (
            "Descriptions of an MCP server's tools alone make poor prompts: write what a user would say, with the "
            "values that are expected, and run with tool_choice 'required'."
        )


def _expected(case: StoredCase) -> list[str]:
    return _expected_tools(case.body.get("expected_tool"))


def _expected_tools(expected: JsonValue) -> list[str]:
    return [] if expected is None else [str(name) for name in (expected if isinstance(expected, list) else [expected])]


def _properties(schema: Any) -> set[str] | None:
    """The names of parameters; None where others may be given, too."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or schema.get("additionalProperties") or schema.get("patternProperties"):
        return None
    return set(properties)


def _named(cases: list[str]) -> str:
    names = ", ".join(cases[:_SHOWN])
    return f"{count(len(cases), 'case')} ({names}{', ...' if len(cases) > _SHOWN else ''})"
