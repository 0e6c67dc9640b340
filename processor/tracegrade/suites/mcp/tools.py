"""The tools of an MCP server as a rule, are arguments valid by its schemas?, and as a suite to write cases for."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tracegrade.evaluate.criteria.json_schema import JsonSchema, JsonSchemaError
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import Imported, JsonObject, SuiteError, head, rule_id_of
from tracegrade.suites.mcp.address import Allowed, checked_address
from tracegrade.suites.mcp.client import STDIO, Listed, list_tools_at, list_tools_of, program_name
from tracegrade.suites.written import LONGEST_TOOL_NAME, unusual_names

# What the interface that most models are asked by takes as the name of a function.

FROM_SERVER = "The tools of the MCP server at "
"""How the description of a suite begins that was made of a server's tools."""


def is_server(source: str) -> bool:
    """Whether `source` names an MCP server: an http(s) address, or ``stdio:`` and a command."""
    return source.startswith(("http://", "https://", STDIO))


def list_tools(server: str, allowed: Allowed, headers: Mapping[str, str] | None = None) -> Listed:
    """The tools of `server` (as `is_server` says it): name, description and inputSchema of each.

    Args:
        server: where it is.
        allowed: which addresses may be asked.
        headers: sent with every request; not to a program.

    Raises:
        SuiteError: no MCP server answers, it is not to be asked, or it goes beyond a bound.
    """
    if server.startswith(STDIO):
        return list_tools_of(server)
    return list_tools_at(checked_address(server, allowed), headers or {})


def import_tools(listed: Listed, server: str, rule_id: str = "") -> Imported:
    """A rule that judges the arguments of the tools that `server` listed.

    Raises:
        SuiteError: none of them has a schema.
    """
    tools, notes = _usable(listed.tools)
    if not tools:
        raise SuiteError(f"{server}: expected tools with an inputSchema, found none")
    schemas: JsonObject = {name: tool["inputSchema"] for name, tool in tools.items()}
    title = f"Arguments are not valid by the schemas of {_place(server)}"
    rule = head(rule_id or rule_id_of(f"arguments invalid for {_place(server, port=False)}"), title, "")
    match: JsonObject = {"tools": [_glob(name) for name in schemas]}
    return Imported(
        rule | {"match": match, "evaluate": [{"evaluator": "args-schema", "from_trace": False, "schemas": schemas}]},
        {"name": title, "tools": [_function(tool) for tool in tools.values()]},
        notes,
    )


@dataclass(frozen=True, slots=True)
class ToolSuite:
    """A suite of a server's tools with no case yet; ``example`` is a case to fill in.

    ``notes`` say what was left out, and what may not do.
    """

    suite: JsonObject
    example: JsonObject
    notes: list[str]


def suite_of(listed: Listed, server: str, name: str = "") -> ToolSuite:
    """A suite of the tools that `server` listed; its name is `name`, else the server's own, else its place.

    Raises:
        SuiteError: none of the tools has a schema.
    """
    tools, notes = _usable(listed.tools)
    if not tools:
        raise SuiteError(f"{server}: expected tools with an inputSchema, found none")
    notes += unusual_names(tools)
    place = _place(server)
    suite: JsonObject = {
        "name": name or listed.name or place,
        "description": FROM_SERVER + place,
        "tools": [_function(tool) for tool in tools.values()],
        "test_cases": [],
    }
    return ToolSuite(suite, _example(*next(iter(tools.items()))), notes)


def _example(name: str, tool: JsonObject) -> JsonObject:
    schema = tool["inputSchema"]
    required = schema.get("required") if isinstance(schema, dict) else None
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {"prompt": "...", "expected_tool": name, "expected_params": dict.fromkeys(names, "...")}


def _usable(tools: list[JsonObject]) -> tuple[dict[str, JsonObject], list[str]]:
    """The tools with a name of their own and a schema that can be used, by name, and why others are left out."""
    found: dict[str, JsonObject] = {}
    notes: list[str] = []
    for tool in tools:
        name, schema = tool.get("name"), tool.get("inputSchema")
        try:
            if not isinstance(schema, dict):
                raise JsonSchemaError("expected an inputSchema, which is an object")
            JsonSchema(schema)
        except JsonSchemaError as error:
            notes.append(f"tool {name!r} is left out: {error}")
            continue
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_TOOL_NAME:
            found_name = repr(name)[: LONGEST_TOOL_NAME + 2]
            notes.append(f"tool {found_name} is left out: expected a name of 1 to {LONGEST_TOOL_NAME} characters")
        elif name in found:
            notes.append(f"tool {name!r} is left out where it is listed again")
        else:
            found[name] = tool
    return found, notes


def _place(server: str, *, port: bool = True) -> str:
    """The host and port of `server` without what may be secret; of a command only the program."""
    if server.startswith(STDIO):
        return program_name(server)
    address = urlsplit(server)
    return address.netloc.rpartition("@")[2] if port else address.hostname or ""


def _glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _function(tool: JsonObject) -> JsonValue:
    description = tool.get("description")
    described: JsonObject = {"description": description} if isinstance(description, str) and description else {}
    return {"type": "function", "function": {"name": tool["name"], **described, "parameters": tool["inputSchema"]}}
