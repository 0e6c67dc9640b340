"""What is sent is what is stored, or it is refused: every field of every operation of the OpenAPI document."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from build import rest_long
from suites.weather import WEATHER_SUITE
from tracegrade.suites.settings import SuitesSettings
from web.api_calls import DOCUMENT, TOOL_EVAL_DOCUMENT, Api
from web.test_suites_api import CASE, MULTI_TURN, api_in

MODELS = "providers:\n  one:\n    base_url: http://127.0.0.1:9/v1\n    models: [{id: m-1}]\n"
KINDS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    0.5,
    10**30,
    "",
    "1",
    "true",
    "an unknown word",
    [],
    [0],
    {},
    {"unknown": 1},
    "x" * 1_100_000,
]
FEW = 3
"""So many of these each field is sent usually, and all of them in the long run; its neighbour is sent the next ones."""
# Not given back under these names. Everywhere, null is as if the field were left out.
NOT_KEPT = {"headers", "targets", "provider_key", "model_id", "multi_turn_config", "experiment_id", "eval_id", "url"}
FULL_CASE = {**CASE, **MULTI_TURN, "scoring_config": {"mode": "exact"}, "category": "easy", "should_call_tool": True}
FULL_CASE["multi_turn_config"] = {}
SUITE = {**WEATHER_SUITE, "test_cases": [FULL_CASE]}
EVAL = {"suite_id": "SUITE", "models": ["one::m-1"], "targets": [{"provider_key": "one", "model_id": "m-1"}]}
# A body that each operation takes, with a part for each object in it that has fields.
GOOD: dict[str, Any] = {
    "createToolSuite": {**SUITE, "test_cases": []},  # its cases are read as those of createTestCases are
    "updateToolSuite": {"name": "n", "tools": WEATHER_SUITE["tools"]},
    "patchToolSuite": {"name": "n", "tools": WEATHER_SUITE["tools"]},
    "createTestCases": FULL_CASE,
    "updateTestCase": FULL_CASE,
    "importToolSuite": SUITE,
    "importMcpSuite": {"url": "http://127.0.0.1:1/"},
    "runToolEval": EVAL,
    "cancelToolEval": {"job_id": "none"},
    "runBestOfToolExperiment": {"models": ["one::m-1"], "targets": EVAL["targets"]},
    "createToolExperiment": {"name": "NEW"},
    "pinToolBaseline": {"eval_id": None},
    "reportToToolTimeline": {"type": "judge"},
    "updateToolExperiment": {"description": "d"},
    "changeExperiment": {"baseline": "NEW"},
    "changeRun": {"labels": {"model": "m-1"}},
    "submitJob": {"suite": "SUITE", "models": ["one::m-1"]},
    "backtestRule": {"rule": "id: r"},
}
# Accepted, and no value of it is anywhere to be read.
WITHOUT_GET = {"cancelToolEval", "importMcpSuite", "runBestOfToolExperiment", "pinToolBaseline"}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    (tmp_path / "models.yaml").write_text(MODELS)
    return api_in(tmp_path, suites=SuitesSettings(models=str(tmp_path / "models.yaml")))


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = TOOL_EVAL_DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def fields_of(schema: dict[str, Any], body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The path and schema of every field, within what `body` has of objects and lists."""
    schema = resolved(schema)
    for option in schema.get("anyOf", ()):
        is_object = isinstance(body, dict) and "properties" in resolved(option)
        if is_object or (isinstance(body, list) and "items" in resolved(option)):
            yield from fields_of(option, body, path)
            return
    if isinstance(body, list) and body and "items" in schema:
        yield from fields_of(schema["items"], body[0], (*path, 0))
    for name, part in schema.get("properties", {}).items():
        yield (*path, name), part
        yield from fields_of(part, body.get(name), (*path, name))


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(body))
    at = made
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return made


def at_path(found: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        found = found[part] if isinstance(part, int) else found.get(part)
    return found


def sendable(api: Api, number: int) -> dict[str, str]:
    made = api.call("POST", "/tool-eval/import", WEATHER_SUITE).json
    api.call("POST", "/experiments", {"name": f"e{number}"})
    return {"suite_id": made["suite_id"], "case_id": "case-1", "experiment_id": f"e{number}", "eval_id": "none"}


def read_back(api: Api, operation: str, answer: Any, places: dict[str, str]) -> Any:
    """What GET has of what was sent."""
    if operation in ("createToolSuite", "importToolSuite"):
        return api.get(f"/tool-suites/{answer['id']}")
    if operation in ("updateToolSuite",):
        return api.get(f"/tool-suites/{places['suite_id']}")
    if operation in ("createTestCases", "updateTestCase"):
        (case,) = (
            case
            for case in api.get(f"/tool-suites/{places['suite_id']}/cases")["cases"]
            if case["id"] == (answer.get("case_id") or answer.get("id"))
        )
        return case
    if operation == "runToolEval":
        found = Api(api.site, DOCUMENT).get(f"/jobs/{answer['job_id']}")
        api.call("POST", "/tool-eval/cancel", {"job_id": answer["job_id"]})
        return {**found["request"], "suite_id": found["request"]["suite"]}
    if operation == "reportToToolTimeline":
        return api.get(f"/experiments/{places['experiment_id']}/timeline")["entries"][-1]
    return api.get(f"/experiments/{answer['id']}")


@pytest.mark.parametrize("sent", rest_long([FEW, len(KINDS)], usual=[FEW]))
def test_every_field_is_stored_as_sent_or_refused(api: Api, sent: int) -> None:
    failures: list[str] = []
    kinds = itertools.cycle(KINDS)
    number = tried = 0
    for address, operations in TOOL_EVAL_DOCUMENT["paths"].items():
        for method, operation in operations.items():
            name = operation["operationId"]
            if "requestBody" not in operation or name == "patchToolSuite":  # the same as PUT
                continue
            good = GOOD[name]
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            places = sendable(api, number)
            for path, part in fields_of(schema, good):
                rules = jsonschema_rs.validator_for({**part, "components": TOOL_EVAL_DOCUMENT["components"]})
                for value in itertools.islice(kinds, sent):
                    number += 1
                    body = json.loads(json.dumps(with_value(good, path, value)).replace("SUITE", places["suite_id"]))
                    if name == "createToolExperiment" and path != ("name",):
                        body["name"] = f"made{number}"
                    if name == "updateToolExperiment":
                        places = sendable(api, number)
                    answer = api.call(method.upper(), address.format(**places), body)
                    tried += 1
                    shown = f"{name} {'.'.join(map(str, path))} = {json.dumps(value)[:40]}: {answer.status}"
                    if answer.status == 400:
                        if str(path[-1]) not in answer.json["detail"]:
                            failures.append(f"{shown}, which names no field: {answer.json['detail'][:200]}")
                    elif answer.status >= 300:
                        if answer.status not in (404, 409) or not rules.is_valid(value):
                            failures.append(f"{shown}: {answer.json['detail'][:200]}")
                    elif name == "importToolSuite" and answer.json["notes"]:
                        continue  # left out, and said
                    elif not rules.is_valid(value):
                        failures.append(f"{shown}, and the schema refuses it")
                    elif name not in WITHOUT_GET and value is not None and not set(path) & NOT_KEPT:
                        found = at_path(read_back(api, name, answer.json, places), path)
                        if type(value) is int and isinstance(found, float):
                            found = int(found)  # a score of 1 is 1.0
                        if json.dumps(found) != json.dumps(value):
                            failures.append(f"{shown}, and GET gives {json.dumps(found)[:80]}")
    assert not failures, f"{len(failures)} of {tried}:\n" + "\n".join(failures)
