"""The JSON API from its OpenAPI document: operations with their parameters, and the documents that they answer."""

from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import FastAPI

from generator.fields import kind
from tracegrade.cli.output import markdown_table
from tracegrade.web.api.app import Api
from tracegrade.web.part import web_parts

_OK = ("200", "201", "202")


APIS: dict[str, Callable[[], FastAPI]] = {"api": Api} | {
    make.__name__.replace("_", "-"): make for part in web_parts() for make in part.apis
}
"""By the name of their page; of a part, that of the function which makes it."""


@cache
def document(page: str) -> dict[str, Any]:
    """The OpenAPI document of a page, made once."""
    return APIS[page]().openapi()


def operations(page: str) -> str:
    """A part for each operation."""
    schemas, paths = document(page)["components"]["schemas"], document(page)["paths"]
    return "\n\n".join(
        _operation(f"{method.upper()} {path}", operation, schemas)
        for path, by_method in paths.items()
        for method, operation in by_method.items()
    )


def documents(page: str) -> str:
    """A part for each kind of object that operations take and answer."""
    schemas = document(page)["components"]["schemas"]
    return "\n\n".join(_document(name, schema, schemas) for name, schema in sorted(schemas.items()))


def case_fields() -> str:
    """The fields of a test case."""
    from tracegrade.suites.web.api.suite_documents import CASE  # no page shows them where there are no suites

    return _fields(CASE, {})


def _operation(title: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = [
        (
            f"`{parameter['name']}`",
            parameter["in"],
            _kind(parameter["schema"], schemas),
            _default(parameter),
            parameter.get("description", "").rstrip("."),
        )
        for parameter in operation.get("parameters", ())
    ]
    answer = next(operation["responses"][status] for status in _OK if status in operation["responses"])
    schema = next(iter(answer["content"].values()))["schema"]
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    takes = f"Takes {_kind(taken, schemas)}. " if taken is not None else ""
    parts = [f"### {title}", f"{operation['summary']}.", f"{takes}Answers {_kind(schema, schemas)}."]
    return "\n\n".join(
        [*parts, *([markdown_table(("parameter", "in", "takes", "default", "meaning"), rows)] * bool(rows))]
    )


def _default(parameter: dict[str, Any]) -> str:
    default = parameter["schema"].get("default")
    return "needed" if parameter.get("required") else "none" if default in (None, "") else f"`{default}`"


def _document(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    about = " ".join(schema.get("description", "").split())
    parts = [f"### {name.strip('_')}", *([about] if about else []), _fields(schema, schemas)]
    return "\n\n".join(parts)


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = [
        (f"`{key}`", _kind(part, schemas), part.get("description", "").rstrip("."))
        for key, part in schema.get("properties", {}).items()
    ]
    return markdown_table(("field", "is", "meaning"), rows)


def _kind(part: dict[str, Any], schemas: dict[str, Any]) -> str:
    """What a value is; of an object with fields of its own, a link to them."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name.strip('_')}](#{name.strip('_').lower()})" if name in schemas else "object"
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_kind(option, schemas) for option in part["anyOf"]))
    if part.get("type") == "array" and part.get("items"):
        return f"list of {_kind(part['items'], schemas)}"
    if isinstance(part.get("additionalProperties"), dict) and "properties" not in part:
        return f"object of {_kind(part['additionalProperties'], schemas)}"
    return kind(part, schemas)
