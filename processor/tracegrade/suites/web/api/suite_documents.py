"""Suites and cases in the OpenAPI document, as they come and as they are answered.

What comes is checked by `tracegrade.suites.stored`, which says in one sentence what is wrong. So these models describe
fields and refuse none.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from tracegrade.suites.stored import LONGEST_NAME, LONGEST_TEXT, MOST_CASES, MOST_TOOLS
from tracegrade.suites.written import WrittenCase, WrittenTool, schema_of
from tracegrade.web.api.documents import WITHOUT_NUL, Document

_TEXT = {"type": "string"}
_TOOL = schema_of(WrittenTool)
CASE = schema_of(WrittenCase)


def _described(schema: Mapping[str, Any], text: str = "") -> WithJsonSchema:
    return WithJsonSchema({**schema, **({"description": text} if text else {})})


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null is as if the field were empty."""
    return {"anyOf": [schema, {"type": "null"}]}


class Sent(BaseModel):
    """What a caller sends; each field as it was sent."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False})

    @property
    def given(self) -> dict[str, Any]:
        """All that was sent."""
        return self.model_dump(exclude_unset=True)


_Name: TypeAlias = Annotated[Any, _described({"type": "string", "minLength": 1, "maxLength": LONGEST_NAME})]
_Text: TypeAlias = Annotated[Any, _described(_or_null({"type": "string", "maxLength": LONGEST_TEXT}))]
_Tools: TypeAlias = Annotated[Any, _described(_or_null({"type": "array", "items": _TOOL, "maxItems": MOST_TOOLS}))]


class SentFields(Sent):
    """Fields of a suite to change; those that are left out stay as they are."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "minProperties": 1})

    name: _Name = None
    description: _Text = None
    system_prompt: _Text = None
    tools: _Tools = None


class SentSuite(SentFields):
    """A suite, which needs a name."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "required": ["name"]})

    test_cases: Annotated[Any, _described(_or_null({"type": "array", "items": CASE, "maxItems": MOST_CASES}))] = None


class SentImport(SentSuite):
    """A suite that is imported; it needs a name, or `suite_id`."""

    model_config = ConfigDict(
        json_schema_extra={
            "additionalProperties": False,
            "required": [],
            "anyOf": [{"required": ["name"]}, {"required": ["suite_id"]}],
        }
    )

    suite_id: Annotated[
        Any,
        _described(
            _or_null({"type": "string", "pattern": WITHOUT_NUL}),
            "The suite whose tools and cases it replaces; a new one without",
        ),
    ] = None


SentCaseFields: TypeAlias = Annotated[
    Any, WithJsonSchema({**{key: part for key, part in CASE.items() if key != "required"}, "minProperties": 1})
]
SentCases: TypeAlias = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                CASE,
                {"type": "array", "items": CASE, "minItems": 1},
                {
                    "type": "object",
                    "required": ["cases"],
                    "additionalProperties": False,
                    "properties": {"cases": {"type": "array", "items": CASE, "minItems": 1}},
                },
            ]
        }
    ),
]


class SentServer(Sent):
    """An MCP server."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "required": ["url"]})

    url: Annotated[
        Any,
        _described({"type": "string", "pattern": "^https?://"}, "Its http(s) address, of streamable HTTP or of SSE"),
    ] = None
    name: Annotated[Any, _described(_or_null(_TEXT), "The suite's name; the server's own if left out")] = None
    headers: Annotated[
        Any,
        _described(
            _or_null({"type": "object", "additionalProperties": _TEXT}),
            "Sent with every request to it, such as a key; not kept",
        ),
    ] = None


# What was stored before fields were held to their schema is shown as it is.
_SHOWN: dict[str, Any] = {
    **CASE,
    "required": ["id", "prompt", "expected_tool"],
    "properties": {name: {"description": part["description"]} for name, part in CASE["properties"].items()},
}
CaseDocument: TypeAlias = Annotated[dict[str, Any], WithJsonSchema(_SHOWN)]


_NOTES = {"type": "array", "items": _TEXT, "description": "What a run of it would need that the settings do not name"}
SavedCase: TypeAlias = Annotated[
    dict[str, Any], WithJsonSchema({**_SHOWN, "properties": {**_SHOWN["properties"], "notes": _NOTES}})
]


class SuiteHeadDocument(Document):
    """A suite without its tools and cases."""

    id: str
    name: str
    description: str
    tool_count: int
    test_case_count: int
    created_ns: int
    updated_ns: int = Field(description="When it, or a case of it, was last changed")


class Suites(Document):
    """The one made last comes first."""

    suites: list[SuiteHeadDocument]


class SuiteDocument(Document):
    """A suite with its tools and test cases."""

    id: str
    tenant: str
    name: str
    description: str
    system_prompt: str = Field(description="What a model is told before each prompt; may be empty")
    tools: list[dict[str, Any]] = Field(description="In the form of OpenAI's function calling")
    test_cases: list[CaseDocument]
    created_ns: int
    updated_ns: int = Field(description="When it, or a case of it, was last changed")
    notes: list[str] = Field(
        description="What of it would be refused if it were sent or run now; of one that was made, also what was left "
        "out, and why. Empty without the right `read-values`"
    )


class NewSuite(SuiteDocument):
    """A suite that was made."""

    suite_id: str = Field(description="Its id")
    test_cases_created: int


class ExportedSuite(Document):
    """A suite as it is imported; `description` and `system_prompt` only where it has them."""

    name: str
    description: str = ""
    system_prompt: str = ""
    tools: list[dict[str, Any]]
    test_cases: list[CaseDocument]


class CasesDocument(Document):
    """The cases of a suite, in order."""

    cases: list[CaseDocument]


class NewCases(CasesDocument):
    """The cases that were added."""

    created: int
    case_id: str | None = Field(description="The id of a case that was sent alone")
    notes: list[str] = Field(description="What a run of them would need that the settings do not name")


class DeletedSuite(Document):
    """What was deleted."""

    deleted: int = Field(description="How many suites, or cases where a case was deleted")
    test_cases_deleted: int
