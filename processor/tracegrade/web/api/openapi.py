"""The OpenAPI 3.1 document, made from the operations: it says what is checked, and tests hold answers to it."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from tracegrade.web.api.operation import Operation, Problem
from tracegrade.web.problem import MEDIA_TYPE, PREFIX, TYPES

_REF = "#/components/schemas/{model}"
_REFUSED_ALWAYS = {
    "400": "A parameter is wrong",
    "401": "A token is needed",
    "403": "Asked for by another site",
    "405": "This address takes other methods",
    "421": "Called by another name than this machine's, without web.auth",
    "429": "Too many wrong tokens",
    "500": "A mistake of ours",
}
_DESCRIPTION = """The same reads as the page and the command line of TraceGrade, and requests for deletion.

Times are ns since 1970 UTC; as parameters also RFC 3339, or a duration ago such as 2h. Lists come newest first, in
pages: `next` of one is the parameter `cursor` of the next. Integers in values are exact at any size. Errors are
`application/problem+json`, each with a `type` that never changes:

"""


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document of `operations`."""
    operations = list(operations)
    models: set[type[BaseModel]] = {Problem, *(operation.response for operation in operations)}
    pairs: list[tuple[type[BaseModel], JsonSchemaMode]]
    pairs = [(model, "serialization") for model in sorted(models, key=lambda model: model.__name__)]
    references, schemas = models_json_schema(pairs, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _described(operation, references[operation.response, "serialization"])
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TraceGrade",
            "version": _version(),
            "description": _DESCRIPTION + "\n".join(f"- `{PREFIX}{name}`: {text}" for name, text in TYPES.items()),
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation, reference: Mapping[str, Any]) -> dict[str, Any]:
    refused = dict(_REFUSED_ALWAYS)
    if operation.path_types:
        refused["404"] = "There is no such thing"
    if operation.needs_store:
        refused["503"] = "There are no results yet"
    if operation.method == "DELETE":
        refused["409"] = "It cannot be done now"
    answers: dict[str, Any] = {
        str(operation.status): {
            "description": operation.summary,
            "content": {"application/json": {"schema": reference}},
        }
    }
    problem = {"schema": {"$ref": _REF.format(model=Problem.__name__)}}
    for status, description in sorted(refused.items()):
        answers[status] = {"description": description, "content": {MEDIA_TYPE: problem}}
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": answers,
    }


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": TypeAdapter(type_).json_schema()}
        for name, type_ in operation.path_types.items()
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    schema = operation.query.model_json_schema(mode="validation")
    required = schema.get("required", [])
    found = []
    for name, described in schema["properties"].items() if "properties" in schema else ():
        description = described.pop("description", "")
        described.pop("title", None)
        kinds = [kind for kind in described.get("anyOf", ()) if kind != {"type": "null"}]
        if kinds:  # null is how one says in Python that it was not given
            default = described.get("default")
            described = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            described = described if default is None else {**described, "default": default}
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "description": description,
                "schema": described,
            }
        )
    return found


def _version() -> str:
    try:
        return version("tracegrade")
    except PackageNotFoundError:
        return "unknown"
