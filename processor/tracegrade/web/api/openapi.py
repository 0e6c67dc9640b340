"""The parts of the OpenAPI document beside the operations: the possible problems, and how to send a token."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tracegrade.web.api.documents import Problem
from tracegrade.web.problem import MEDIA_TYPE, PREFIX, TYPES

DESCRIPTION = """The same reads as the page and the command line of TraceGrade, requests for deletion, and
accepting the level of an incident.

Times are ns since 1970 UTC; as parameters also RFC 3339, or a duration ago such as 2h. Lists come newest first, in
pages: `next` of one is the parameter `cursor` of the next. Integers in values are exact at any size. Errors are
`application/problem+json`, each with a `type` that never changes:

""" + "\n".join(f"- `{PREFIX}{name}`: {text}" for name, text in TYPES.items())

_MEANINGS = {
    400: "A parameter is wrong",
    401: "A token is needed",
    403: "Asked for by another site, or by a caller who may not change anything",
    404: "It does not exist",
    405: "This address takes other methods",
    408: "The body did not come in time",
    409: "It cannot be done now",
    413: "The body is too long",
    421: "Called by another name than this machine's, without web.auth",
    429: "Too many wrong tokens",
    500: "A mistake of ours",
    503: "There are no results yet, or too much is being worked out",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The description of problems of these statuses, as FastAPI's ``responses`` take it."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in statuses}


COMMON_PROBLEMS = problems(400, 401, 403, 405, 421, 429, 500)


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI's document with additions that it cannot know, without its own form of errors, which is never sent."""
    schemas = document["components"]["schemas"]
    del schemas["HTTPValidationError"], schemas["ValidationError"]
    schemas["Problem"] = Problem.model_json_schema()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    of_bodies = problems(408, 413)
    for operations in document["paths"].values():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            if method != "get":
                operation["responses"] |= {str(status): described for status, described in of_bodies.items()}
    return document | {"security": [{"token": []}, {}]}


def own_version() -> str:
    """The installed version of TraceGrade."""
    try:
        return version("tracegrade")
    except PackageNotFoundError:
        return "unknown"
