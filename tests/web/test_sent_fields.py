"""What is sent is what is stored, or it is refused: every field of every operation of both OpenAPI documents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from build import rest_long
from build.api import DOCUMENT, Api
from build.asgi import Called
from build.shop_runs import store_run
from build.site import Site
from build.stored_alerts import ALERT, INCIDENT, store_incident
from suites.build.api import TOOL_EVAL_DOCUMENT
from suites.build.weather_suite import WEATHER_SUITE
from suites.web.test_suites_api import CASE, MULTI_TURN, api_in
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import changing_store
from tracegrade.suites.settings import SuitesSettings

MODELS = "providers:\n  one:\n    base_url: http://127.0.0.1:9/v1\n    models: {m-1: {}}\n"
LONG = "x" * 1_100_000
WRONG_KINDS: list[Any] = [
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
    "a\0b",
    "\0",
    [],
    [0],
    ["a\0b"],
    {},
    {"unknown": 1},
    {"a\0b": "a\0b"},
]
UNKNOWN = "colour"  # a key that no object has
# Not given back under these names. Everywhere, null is as if the field were left out.
NOT_KEPT = {
    "headers",
    "targets",
    "provider_key",
    "model_id",
    "multi_turn_config",
    "experiment_id",
    "eval_id",
    "url",
} | {
    "duration",
    "incident",
    "dry_run",
}
# Beside `targets`, which names models, too.
EMPTY_IS_LEFT_OUT = {("runToolEval", "models")}
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
    "commentOnIncident": {"text": "a lock is held"},
    "makeSilence": {"labels": {"service": "shop"}, "comment": "we know"},
}
# Accepted, and no value of it is anywhere to be read.
WITHOUT_GET = {"cancelToolEval", "importMcpSuite", "runBestOfToolExperiment", "pinToolBaseline", "backtestRule"}
# Refused by its rule, which is read last: a whole rule would be judged by, for seconds.
NOT_WHOLE = {"backtestRule": "rule:"}
RUN = "stored/1"
# One value for each field, in turn; all of all of them in the long run, since they take half a minute.
SENT = rest_long(["one", "all"], usual=["one"])


def chosen(values: list[Any], number: int, sent: str) -> list[Any]:
    """The values that the field or parameter of this number gets."""
    return values if sent == "all" else [values[number % len(values)]]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "models.yaml").write_text(MODELS)
    made = api_in(tmp_path, suites=SuitesSettings(models=str(tmp_path / "models.yaml"))).site
    store_run(tmp_path, RuleSet([]), RUN, [], 1)
    with changing_store(made.store_url) as connection:
        store_incident(connection, ALERT)
    return made


class Sent:
    """The bodies of the operations of one document, sent to an API with a suite and an experiment in it."""

    def __init__(self, site: Site, document: dict[str, Any]) -> None:
        self.document = document
        self.api = Api(site, document)
        self.jobs, self._suites = Api(site, DOCUMENT), Api(site, TOOL_EVAL_DOCUMENT)
        self.number = 0
        self.refresh()

    def refresh(self) -> None:
        """Make what the addresses of operations name: a suite with a case, and an experiment."""
        self.number += 1
        suite = self._suites.call("POST", "/tool-eval/import", WEATHER_SUITE).json["suite_id"]
        name = f"e{self.number}"
        self._suites.call("POST", "/experiments", {"name": name})
        self.places = {"suite_id": suite, "case_id": "case-1", "experiment_id": name, "eval_id": "none"}
        self.places |= {"experiment": "stored", "run": RUN, "incident_id": INCIDENT.id}

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def fields_of(
        self, schema: dict[str, Any], body: Any, path: tuple[Any, ...] = ()
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """The path and schema of every field, within what `body` has of objects and lists.

        An object that takes no other fields has `UNKNOWN`, too, which no value fits.
        """
        schema = self.resolved(schema)
        for option in schema.get("anyOf", ()):
            is_object = isinstance(body, dict) and "properties" in self.resolved(option)
            if is_object or (isinstance(body, list) and "items" in self.resolved(option)):
                yield from self.fields_of(option, body, path)
                return
        if isinstance(body, list) and body and "items" in schema:
            yield from self.fields_of(schema["items"], body[0], (*path, 0))
        for name, part in schema.get("properties", {}).items():
            yield (*path, name), part
            yield from self.fields_of(part, body.get(name), (*path, name))
        if schema.get("additionalProperties") is False:
            yield (*path, UNKNOWN), {"not": {}}

    def send(self, address: str, method: str, name: str, path: tuple[Any, ...], value: Any) -> Called:
        """What is answered to the body that the operation takes, with this value at this place."""
        self.number += 1
        text = json.dumps(with_value(GOOD[name], path, value)).replace("SUITE", self.places["suite_id"])
        body = json.loads(text)
        if name == "createToolExperiment" and path != ("name",):
            body["name"] = f"made{self.number}"
        if name == "updateToolExperiment":
            self.refresh()
        return self.api.call(method.upper(), address.format(**self.places), body)

    def read_back(self, operation: str, answer: Any) -> Any:
        """What GET has of what was sent."""
        if operation in ("createToolSuite", "importToolSuite"):
            return self.api.get(f"/tool-suites/{answer['id']}")
        if operation in ("updateToolSuite", "patchToolSuite"):
            return self.api.get(f"/tool-suites/{self.places['suite_id']}")
        if operation in ("createTestCases", "updateTestCase"):
            (case,) = (
                case
                for case in self.api.get(f"/tool-suites/{self.places['suite_id']}/cases")["cases"]
                if case["id"] == (answer.get("case_id") or answer.get("id"))
            )
            return case
        if operation in ("runToolEval", "submitJob"):
            job = answer.get("job_id") or answer.get("id")
            found = self.jobs.get(f"/jobs/{job}")
            self.jobs.call("POST", f"/jobs/{job}/cancel")
            return {**found["request"], "suite_id": found["request"]["suite"]}
        if operation == "reportToToolTimeline":
            return self.api.get(f"/experiments/{self.places['experiment_id']}/timeline")["entries"][-1]
        if operation == "commentOnIncident":
            return self.api.get(f"/incidents/{INCIDENT.id}")["notes"][-1]
        if operation == "makeSilence":
            made = answer["silence"] or {}
            return next((one for one in self.api.get("/silences")["items"] if one["id"] == made.get("id")), made)
        if operation == "changeRun":
            return self.api.get(f"/runs/{RUN}")
        return self.api.get(f"/experiments/{answer.get('id') or answer['experiment']}")


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


@pytest.mark.parametrize("number", SENT)
@pytest.mark.parametrize("document", [DOCUMENT, TOOL_EVAL_DOCUMENT], ids=["api-v1", "api"])
def test_every_field_is_stored_as_sent_or_refused(site: Site, document: dict[str, Any], number: str) -> None:
    sent = Sent(site, document)
    failures: list[str] = []
    field = tried = 0
    for address, operations in document["paths"].items():
        for method, operation in operations.items():
            name = operation["operationId"]
            if "requestBody" not in operation:
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            sent.refresh()
            for path, part in sent.fields_of(schema, GOOD[name]):
                rules = jsonschema_rs.validator_for(
                    {**part, "components": document["components"]}, validate_formats=True
                )
                kinds = [*WRONG_KINDS, LONG] if "string" in json.dumps(part.get("anyOf", part)) else WRONG_KINDS
                field += 1
                for value in chosen(kinds, field, number):
                    answer = sent.send(address, method, name, path, value)
                    tried += 1
                    shown = f"{name} {'.'.join(map(str, path))} = {json.dumps(value)[:40]}: {answer.status}"
                    if answer.status == 400 and name in NOT_WHOLE and NOT_WHOLE[name] != f"{path[0]}:":
                        is_taken = answer.json["detail"].startswith(NOT_WHOLE[name])
                        if is_taken != rules.is_valid(value):
                            failures.append(f"{shown}, unlike the schema: {answer.json['detail'][:200]}")
                    elif answer.status == 400:
                        if str(path[-1]) not in answer.json["detail"]:
                            failures.append(f"{shown}, which names no field: {answer.json['detail'][:200]}")
                    elif answer.status == 413 and value is LONG:
                        continue
                    elif answer.status >= 300:
                        looked_up = isinstance(value, str) and "\0" in value  # which PostgreSQL cannot
                        if (
                            answer.status not in (404, 409)
                            or (answer.status == 404 and looked_up)
                            or not rules.is_valid(value)
                        ):
                            failures.append(f"{shown}: {answer.json['detail'][:200]}")
                    elif name == "importToolSuite" and answer.json["notes"]:
                        continue  # left out, and said
                    elif not rules.is_valid(value):
                        failures.append(f"{shown}, and the schema refuses it")
                    elif value == [] and (name, *path) in EMPTY_IS_LEFT_OUT:
                        continue
                    elif name not in WITHOUT_GET and value is not None and not set(path) & NOT_KEPT:
                        found = at_path(sent.read_back(name, answer.json), path)
                        if type(value) is int and isinstance(found, float):
                            found = int(found)  # a score of 1 is 1.0
                        if json.dumps(found) != json.dumps(value):
                            failures.append(f"{shown}, and GET gives {json.dumps(found)[:80]}")
    assert not failures, f"{len(failures)} of {tried}:\n" + "\n".join(failures)
