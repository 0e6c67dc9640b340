"""The fields of test cases and tools as people write them: their types, bounds and words.

What is sent to be stored is held to these. What was stored or written in a file before is not: it goes on as it did,
and what would be refused now is said.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from tracegrade.document.file_model import FileModel
from tracegrade.document.problem import dotted
from tracegrade.document.validate import message_of
from tracegrade.model.json_value import JsonValue

LONGEST_TOOL_NAME = 128
LONGEST_ID = 190
_LONGEST_PROMPT = 1_000_000
_LONGEST_TEXT = 100_000
_LONGEST_CATEGORY = 1000
_MOST_NAMES = 1000
_PROVIDERS_TAKE = re.compile("[a-zA-Z0-9_-]{1,64}")

_ToolName: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_TOOL_NAME)]
_Names: TypeAlias = Annotated[list[_ToolName], Field(max_length=_MOST_NAMES)]
_Object: TypeAlias = dict[str, Any]

Value = TypeVar("Value")


def _names_or_none(value: Value) -> Value:
    names = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST_TOOL_NAME for name in names) or value == []:
        raise ValueError(
            f"expected the name of a tool of 1 to {LONGEST_TOOL_NAME} characters, a list of such names, or null for "
            f"no call, found {str(value)[:60]!r}"
        )
    return value


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_TOOL_NAME}
_ExpectedTool: TypeAlias = Annotated[
    Any,
    BeforeValidator(_names_or_none),
    WithJsonSchema(
        {"anyOf": [_NAME_SCHEMA, {"type": "array", "items": _NAME_SCHEMA, "minItems": 1}, {"type": "null"}]}
    ),
]


class _Scoring(FileModel):
    mode: Literal["exact", "case_insensitive", "contains", "numeric_tolerance", "regex"] = "exact"
    epsilon: float = Field(0.01, ge=0, allow_inf_nan=False)


class _OneTurn(FileModel):
    id: str | None = Field(
        None, min_length=1, max_length=LONGEST_ID, description="Unique within its suite; made if left out"
    )
    prompt: str = Field(min_length=1, max_length=_LONGEST_PROMPT, description="What a user says to the model")
    expected_tool: _ExpectedTool = Field(
        None,
        description="The tool that should be called, any of several, or null for none; a new case that leaves it out "
        "needs should_call_tool false",
    )
    expected_params: _Object | None = Field(None, description="Its parameters; null: they are not scored")
    param_scoring: Literal["exact", "fuzzy", "contains", "semantic"] | None = Field(
        None,
        description="How they are compared; exact unless set. fuzzy compares as exact does: texts without regard to "
        "letter case, other values by being the same",
    )
    scoring_config: _Scoring | None = Field(None, description="How they are compared, in place of param_scoring")
    should_call_tool: bool | None = Field(
        None, description="Whether any tool should be called; expected_tool says it anyway"
    )
    category: str | None = Field(None, max_length=_LONGEST_CATEGORY, description="A word of your own to group cases by")
    multi_turn: bool | None = Field(None, description="Whether calls are answered, and the model is asked again")


class _Turns(FileModel):
    max_rounds: int | None = Field(None, ge=1, le=100, description="How often the model is asked at most; 5 unless set")
    optimal_hops: int | None = Field(None, ge=1, le=1000, description="The calls that a good chain needs")
    valid_prerequisites: _Names | None = Field(None, description="Tools that may come before")
    mock_responses: _Object | None = Field(None, description="What tools answer, by name")
    argument_source: _Object | None = Field(
        None, description="Parameters that are to come from outputs of earlier calls"
    )


class WrittenCase(_Turns, _OneTurn):
    """A test case."""

    multi_turn_config: _Turns | None = Field(None, description="The five fields before, in one object")


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class _Function(_Open):
    name: _ToolName
    description: str = Field("", max_length=_LONGEST_TEXT)
    parameters: _Object = Field(default_factory=dict)


class WrittenTool(_Open):
    """A tool; further members are kept as they are."""

    type: Literal["function"]
    function: _Function


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `model` in one piece, without what only Python has: titles and defaults."""
    written = model.model_json_schema()
    parts = written.pop("$defs", {})
    named = {f"#/$defs/{name}": part for name, part in parts.items()}
    return {**_plain(written, named), "type": "object"}


def _plain(part: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_plain(item, named) for item in part]
    if not isinstance(part, dict):
        return part
    if (ref := part.get("$ref")) is not None:
        part = {**named[ref], **{key: value for key, value in part.items() if key != "$ref"}}
    found = {key: value for key, value in part.items() if key not in ("title", "default")}
    for key, value in found.items():
        # Properties are by name: one of them may be called as a word of JSON Schema is.
        found[key] = (
            {name: _plain(item, named) for name, item in value.items()} if key == "properties" else _plain(value, named)
        )
    return found


def wrong_fields(case: Mapping[str, JsonValue]) -> tuple[list[str], list[str]]:
    """Fields of a case with a value that none can have, and keys in them that are not known, each in a sentence.

    Fields that are missing, and further keys of the case itself, are the reader's matter.
    """
    fields = {key: value for key, value in case.items() if key in WrittenCase.model_fields}
    try:
        WrittenCase.model_validate({"prompt": "x", **fields})
    except ValidationError as error:
        wrong, unknown = [], []
        for item in error.errors(include_url=False):
            if item["type"] == "extra_forbidden":
                unknown.append(f"{dotted(item['loc'][:-1])}: {item['loc'][-1]!r} is not known")
            else:
                wrong.append(_mistake_text(item, WrittenCase))
        return wrong, unknown
    return [], []


def wrong_tools(tools: Iterable[JsonValue]) -> list[str]:
    """What is wrong with tools, each in a sentence; a name must be the only one of its kind."""
    found = []
    places: dict[str, int] = {}
    for place, tool in enumerate(tools):
        try:
            name = WrittenTool.model_validate(tool).function.name
        except ValidationError as error:
            found += [f"tools[{place}].{_mistake_text(item, WrittenTool)}" for item in error.errors(include_url=False)]
            continue
        if (first := places.setdefault(name, place)) != place:
            found.append(
                f"tools[{place}].function.name: tools[{first}] is called {name[:60]!r} already; "
                "expected names that differ"
            )
    return found


def _mistake_text(item: Any, model: type[BaseModel]) -> str:
    return f"{dotted(item['loc'])}: {message_of(item, model)}"


def unusual_names(names: Iterable[str]) -> list[str]:
    """A note for each of these names of tools that common providers refuse."""
    return [
        f"tool {name!r}: many models take only letters, digits, '_' and '-' in a name, at most 64"
        for name in names
        if not _PROVIDERS_TAKE.fullmatch(name)
    ]


def contradiction(case: Mapping[str, JsonValue]) -> str | None:
    """Two fields of a case that say opposite things, in a sentence; None where they agree."""
    tool, should_call = case.get("expected_tool"), case.get("should_call_tool")
    if should_call is not None and should_call is (tool is None):
        said = "true" if should_call else "false"
        return f"should_call_tool: {said} contradicts expected_tool, which is {str(tool or 'null')[:60]}"
    turns = case.get("multi_turn_config")
    if isinstance(turns, dict):
        if turns and case.get("multi_turn") is False:
            return "multi_turn: false contradicts multi_turn_config, which says how several turns go"
        for key, value in turns.items():
            if case.get(key) is not None and value != case[key]:
                return f"{key}: differs from the one in multi_turn_config; expected it in one place"
    return None
