"""Every parameter in the addresses of both OpenAPI documents is taken as its schema says, or refused by its name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema_rs
import pytest

from build.api import DOCUMENT, Api
from build.asgi import call
from suites.build.api import TOOL_EVAL_DOCUMENT
from suites.web.test_suites_api import api_in
from tracegrade.suites.settings import SuitesSettings
from web.test_sent_fields import GOOD, MODELS, SENT, chosen

TEXTS = [
    "",
    " ",
    "0",
    "-1",
    "0.5",
    "nan",
    "inf",
    "1e3",
    "9" * 30,
    "true",
    "null",
    "[]",
    "an unknown word",
    "1_0",
    " 1",
    "+1",
    "1.0",
    "01",
    "0x1",
    "٣",
    "\0",
    "a\nb",
    "x" * 1001,
]
# What an operation needs in its address to be asked at all.
NEEDED = {"before": "1d", "experiment": "e", "a": "live", "b": "live", "trace_id": "0" * 32}
# Refused by more than a schema can say: what is no name of an experiment, unless one of before is called so.
ALSO_REFUSED = {"experiment_id"}
WITHOUT_NUL = "expected an address without the character NUL"
BOOLEANS = {"true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"}


@pytest.fixture(params=[DOCUMENT, TOOL_EVAL_DOCUMENT], ids=["api-v1", "api"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Api:
    (tmp_path / "models.yaml").write_text(MODELS)
    site = api_in(tmp_path, suites=SuitesSettings(models=str(tmp_path / "models.yaml"))).site
    return Api(site, request.param)


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Address, method, operation and its parameters by name; those in headers are no part of an address."""
    for address, operations in document["paths"].items():
        for method, operation in operations.items():
            found = {one["name"]: one for one in operation.get("parameters", ()) if one["in"] != "header"}
            yield address, method.upper(), operation, found


def address_of(address: str, parameters: dict[str, Any], sent: dict[str, str]) -> str:
    """The address with `sent`, and with what it needs beside it."""
    given = {name: NEEDED.get(name, "none") for name, one in parameters.items() if one["required"]} | sent
    inside = {name: quote(value, safe="") for name, value in given.items() if "{" + name + "}" in address}
    query = urlencode({name: value for name, value in given.items() if name not in inside})
    return address.format(**inside) + (f"?{query}" if query else "")


def readings(schema: dict[str, Any], text: str) -> list[Any]:
    """What `text` is as a value of each type that the schema has."""
    types = {option.get("type") for option in schema.get("anyOf", [schema])}
    found: list[Any] = [text] if "string" in types else []
    if "boolean" in types and text.lower() in BOOLEANS:
        found.append(True)
    if "integer" in types and re.fullmatch("-?[0-9]+", text):
        found.append(int(text))
    if "number" in types and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[0-9]+)?", text):
        found.append(float(text))
    return found


@pytest.mark.parametrize("number", SENT)
def test_every_parameter_is_taken_as_documented_or_refused(api: Api, number: str) -> None:
    document = api.document
    failures: list[str] = []
    tried = parameter = 0
    for address, method, operation, parameters in operations_of(document):
        body = GOOD.get(operation["operationId"])
        for name, one in parameters.items():
            rules = jsonschema_rs.validator_for(one["schema"], validate_formats=True)
            parameter += 1
            for text in chosen(TEXTS, parameter, number):
                if one["in"] == "path" and not text:
                    continue  # another address
                tried += 1
                fits = "\0" not in text and any(map(rules.is_valid, readings(one["schema"], text)))
                answer = api.call(method, address_of(address, parameters, {name: text}), body)
                shown = f"{method} {address} {name}={text[:40]!r}: {answer.status} {answer.body[:160]!r}"
                if one["in"] == "path" and "\n" in text and answer.status == 404:
                    continue  # no address has a line break
                if answer.status >= 500:
                    failures.append(shown)
                elif answer.status == 400 and not answer.json["detail"].startswith(
                    (f"{name}:", "expected an address without")
                ):
                    failures.append(f"{shown}, which is not about {name}")
                elif answer.status == 400 and fits and name not in ALSO_REFUSED:
                    failures.append(f"{shown}, and the schema takes it")
                elif answer.status != 400 and not fits:
                    failures.append(f"{shown}, and the schema refuses it")
    assert not failures, f"{len(failures)} of {tried}:\n" + "\n".join(failures)


def test_an_address_that_is_no_operation_is_404_with_both_documents(api: Api) -> None:
    for address in (
        "/api/",
        "/api/v1",
        "/api/v1/",
        "/api/v1/none",
        "/api/none",
        "/api/experiments/a/b",
        "/api/v2/jobs",
    ):
        answer = call(api.app, "GET", address)
        assert answer.status == 404, address
        assert "/api/openapi.json and /api/v1/openapi.json" in answer.json["detail"], address


def test_every_operation_refuses_an_unknown_parameter_and_one_sent_twice(api: Api) -> None:
    document = api.document
    for address, method, operation, parameters in operations_of(document):
        asked = address_of(address, parameters, {})
        mark = "&" if "?" in asked else "?"
        body = GOOD.get(operation["operationId"])
        for query, detail in (
            ("colour=red", "colour: is not a parameter of this operation"),
            ("tenant=a&tenant=b", "tenant: expected it once, found it twice"),
        ):
            answer = api.call(method, asked + mark + query, body)
            assert (answer.status, answer.json["detail"]) == (400, detail), (method, address)
