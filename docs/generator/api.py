"""The JSON API from its OpenAPI document: operations with their parameters, and the documents that they answer.

The API under ``/api/v1`` has a page for each resource. A document is on the page of the first resource that has it.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI

from generator.fields import kind
from tracegrade.cli.output import markdown_table
from tracegrade.web.api.app import Api
from tracegrade.web.api.parameters import TenantQuery
from tracegrade.web.part import web_parts

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "api"
_OK = ("200", "201", "202")
_TENANT = TenantQuery.model_fields["tenant"].description
_SHOWN_BY_PATH = (None, "", "Its id, or its name, percent-encoded")


class _Resource(NamedTuple):
    """A page: its title, its first sentence, and the first words of the paths of its operations."""

    title: str
    about: str
    begins: tuple[str, ...]


_RESOURCES = {
    "results": _Resource(
        "Results",
        "Read evaluations one by one, their pass rates, and their outcomes over time.",
        ("results", "rates", "trends"),
    ),
    "traces": _Resource("Traces", "Read traces, why they were judged as they were, and delete them.", ("traces",)),
    "sessions": _Resource("Sessions", "Read the sessions that traces are part of, and delete them.", ("sessions",)),
    "rules": _Resource("Rules", "Read the rules in force and the versions that they had.", ("rules",)),
    "alerts": _Resource(
        "Alerts",
        "Read incidents, silences, error budgets and alerts that wait for results, and accept an incident's level.",
        ("incidents", "alerts", "silences", "slos"),
    ),
    "experiments": _Resource(
        "Experiments", "Read experiments and their runs, label them, and delete them.", ("experiments", "runs")
    ),
    "jobs": _Resource("Jobs", "Run a suite in the background, follow it, cancel it, and let it go on.", ("jobs",)),
    "compare": _Resource(
        "Comparisons",
        "Compare two sides, such as releases or runs, and try a changed rule on stored traces.",
        ("compare", "backtests"),
    ),
    "deletions": _Resource(
        "Deletions", "Delete all that is kept of a user, and read how far a deletion is.", ("users", "deletions")
    ),
    "health": _Resource("Health", "Read what was received, what became of it, and what is wrong now.", ("health",)),
}
"""By the name of their page, in the order in which they are listed."""

APIS: dict[str, Callable[[], FastAPI]] = {"api": Api} | {
    make.__name__.replace("_", "-"): make for part in web_parts() for make in part.apis
}
"""By the name of their page; of a part, that of the function which makes it."""


@cache
def document(page: str) -> dict[str, Any]:
    """The OpenAPI document of a page, made once."""
    return APIS[page]().openapi()


def pages() -> dict[Path, str]:
    """The page of every resource, by its file."""
    schemas, homes = document("api")["components"]["schemas"], _homes()
    found = {}
    for name, resource in _RESOURCES.items():
        own = {schema: "" if home == name else f"{home}.md" for schema, home in homes.items()}
        parts = [
            "<!-- Written by docs/generate.py from the code. -->",
            f"# {resource.title}",
            f"{resource.about} Paths are below `/api/v1`; see [what all share](index.md#what-all-operations-share).",
            *(_operation(f"## {title}", operation, own) for title, operation in _operations(resource)),
            "## Documents",
            *(_document(schema, schemas[schema], own) for schema in sorted(schemas) if homes[schema] == name),
        ]
        found[FOLDER / f"{name}.md"] = "\n\n".join(parts) + "\n"
    return found


def table_of_resources() -> str:
    """A table of operations for each page."""
    parts = []
    for name, resource in _RESOURCES.items():
        rows = []
        for title, operation in _operations(resource):
            method, path = title.split()
            rows.append((method, f"[`{path}`]({name}.md#{_anchor(title)})", operation["summary"]))
        parts.append(f"### [{resource.title}]({name}.md)\n\n{markdown_table(['', 'path', 'what'], rows)}")
    return "\n\n".join(parts)


def table_of_operations(page: str) -> str:
    """The operations, with what each takes and answers."""
    own = dict.fromkeys(document(page)["components"]["schemas"], "")
    rows = []
    for title, operation in _all_operations(page):
        method, path = title.split()
        taken, answer = _documents_of(operation)
        linked = f"[`{path}`](#{_anchor(title)})" if list(_parameters(operation)) else f"`{path}`"
        rows.append((method, linked, operation["summary"], _kind(taken, own) if taken else "", _kind(answer, own)))
    return markdown_table(["", "path", "what", "takes", "answers"], rows)


def parameters(page: str) -> str:
    """A part for each operation that has parameters of its own."""
    own = dict.fromkeys(document(page)["components"]["schemas"], "")
    return "\n\n".join(
        f"### {title}\n\n{_parameter_table(operation, own)}"
        for title, operation in _all_operations(page)
        if list(_parameters(operation))
    )


def documents(page: str) -> str:
    """A part for each kind of object that operations take and answer."""
    schemas = document(page)["components"]["schemas"]
    own = dict.fromkeys(schemas, "")
    return "\n\n".join(_document(name, schema, own) for name, schema in sorted(schemas.items()))


def case_fields() -> str:
    """The fields of a test case."""
    from tracegrade.suites.web.api.suite_documents import CASE  # no page shows them where there are no suites

    return _fields(CASE, {})


def _operations(resource: _Resource) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each operation of a page by its method and path, in the order of the page's words."""
    paths = document("api")["paths"]
    for begin in resource.begins:
        for path, by_method in paths.items():
            if path.split("/")[1] == begin:
                yield from ((f"{method.upper()} {path}", operation) for method, operation in by_method.items())


def _all_operations(page: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, by_method in document(page)["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in by_method.items())


def _homes() -> dict[str, str]:
    """The page of each document: of the first resource whose operations lead to it, else that of the health."""
    schemas = document("api")["components"]["schemas"]
    homes: dict[str, str] = {}
    for name, resource in _RESOURCES.items():
        left = [ref for _, operation in _operations(resource) for ref in _refs(operation)]
        for schema in left:  # grows on the way
            if schema in schemas and homes.setdefault(schema, name) == name:
                left += [ref for ref in _refs(schemas[schema]) if ref not in homes]
    return {schema: homes.get(schema, "health") for schema in schemas}


def _refs(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(ref := part.get("$ref"), str):
            yield ref.rpartition("/")[2]
        part = list(part.values())
    for item in part if isinstance(part, list) else ():
        yield from _refs(item)


def _anchor(title: str) -> str:
    """As the site makes it of a heading."""
    return "".join(sign for sign in title.lower().replace(" ", "-") if sign.isalnum() or sign in "-_")


def _operation(title: str, operation: dict[str, Any], homes: dict[str, str]) -> str:
    taken, answer = _documents_of(operation)
    takes = f"Takes {_kind(taken, homes)}. " if taken is not None else ""
    parts = [title, f"{operation['summary']}. {takes}Answers {_kind(answer, homes)}."]
    return "\n\n".join([*parts, *([_parameter_table(operation, homes)] * bool(list(_parameters(operation))))])


def _documents_of(operation: dict[str, Any]) -> tuple[Any, Any]:
    """The schema of what an operation takes, or None, and that of what it answers."""
    answer = next(operation["responses"][status] for status in _OK if status in operation["responses"])
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return taken, next(iter(answer["content"].values()))["schema"]


def _parameters(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those that say something of their own: a page says once what ``tenant`` is, and a path shows its ids."""
    for parameter in operation.get("parameters", ()):
        is_shown = parameter["in"] == "path" and parameter.get("description") in _SHOWN_BY_PATH
        if not is_shown and parameter.get("description") != _TENANT:
            yield parameter


def _parameter_table(operation: dict[str, Any], homes: dict[str, str]) -> str:
    rows = [
        (
            f"`{parameter['name']}`",
            parameter["in"],
            _kind(parameter["schema"], homes),
            _default(parameter),
            parameter.get("description", "").rstrip("."),
        )
        for parameter in _parameters(operation)
    ]
    return markdown_table(("parameter", "in", "takes", "default", "meaning"), rows)


def _default(parameter: dict[str, Any]) -> str:
    default = parameter["schema"].get("default")
    return "needed" if parameter.get("required") else "none" if default in (None, "") else f"`{default}`"


def _document(name: str, schema: dict[str, Any], homes: dict[str, str]) -> str:
    about = " ".join(schema.get("description", "").split())
    parts = [f"### {name.strip('_')}", *([about] if about else []), _fields(schema, homes)]
    return "\n\n".join(parts)


def _fields(schema: dict[str, Any], homes: dict[str, str]) -> str:
    rows = [
        (f"`{key}`", _kind(part, homes), part.get("description", "").rstrip("."))
        for key, part in schema.get("properties", {}).items()
    ]
    return markdown_table(("field", "is", "meaning"), rows)


def _kind(part: dict[str, Any], homes: dict[str, str]) -> str:
    """What a value is; of an object with fields of its own, a link to them."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name.strip('_')}]({homes[name]}#{name.strip('_').lower()})" if name in homes else "object"
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_kind(option, homes) for option in part["anyOf"]))
    if part.get("type") == "array" and part.get("items"):
        return f"list of {_kind(part['items'], homes)}"
    if isinstance(part.get("additionalProperties"), dict) and "properties" not in part:
        return f"object of {_kind(part['additionalProperties'], homes)}"
    return kind(part, homes)
