"""Schemathesis makes up requests from the OpenAPI document, right ones and wrong ones, and holds every answer to it."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from build.shop import GOOD, SECOND, WRONG_ORDER, fill, order
from build.site import Site
from tracegrade.config import Config
from tracegrade.suites.web.api.app import tool_eval_api
from tracegrade.web.api.app import Api
from tracegrade.web.app import build_app

schemathesis = pytest.importorskip("schemathesis", reason="needs pip install -e '.[fuzz]'")

checks = pytest.importorskip("schemathesis.specs.openapi.checks", reason="needs pip install -e '.[fuzz]'")

PATHS = {api.state.prefix: api.openapi()["paths"] for api in (Api(), tool_eval_api())}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("schemathesis")
    now_ns = time.time_ns()
    some = [
        (order(1, now_ns - 400 * SECOND, "1.5.0", WRONG_ORDER, "talk"), "talk"),
        (order(2, now_ns - 390 * SECOND, "1.4.2", GOOD, "talk"), "talk"),
    ]
    rules = fill(folder, iter(some))
    (folder / "journal").mkdir()
    config = Config(data_dir=str(folder))
    app = build_app(Site(config.store_url, rules, config).sources)
    return {
        prefix: schemathesis.openapi.from_asgi(f"{prefix}/openapi.json", app, headers={"host": "localhost"})
        for prefix in PATHS
    }


def says_not_all(prefix: str, path: str, operation: dict[str, Any]) -> bool:
    """Whether what fits the schema may still be refused.

    Of a suite, its name must be printable; of a rule, the schema says only that it is a text; names of experiments have
    a form, unless one of before is called otherwise; `offset` is not taken with `cursor`; and 901.0 is no integer.
    """
    parameters = {one["name"] for one in operation.get("parameters", ())}
    return (
        (prefix == "/api" and "requestBody" in operation)
        or path in ("/backtests", "/jobs")
        or "experiment_id" in parameters
        or {"cursor", "offset"} <= parameters
    )


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize(
    ("prefix", "path", "method"),
    [(prefix, path, method) for prefix, paths in PATHS.items() for path, found in paths.items() for method in found],
)
def test_every_answer_is_as_documented(schemas: Any, prefix: str, path: str, method: str, wrong: bool) -> None:
    modes = schemathesis.GenerationMode
    described = schemas[prefix][path][method]
    operation = PATHS[prefix][path][method]
    unsaid = [checks.positive_data_acceptance] if says_not_all(prefix, path, operation) else []
    if wrong and not operation.get("parameters"):
        pytest.skip("nothing to get wrong")

    @settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=described.as_strategy(generation_mode=modes.NEGATIVE if wrong else modes.POSITIVE))
    def check(case: Any) -> None:
        answer = case.call(headers={"host": "localhost"})
        # Schemathesis does not count 413 among the refusals of what is wrong.
        too_long = [checks.negative_data_rejection] if answer.status_code == 413 else []
        case.validate_response(answer, excluded_checks=unsaid + too_long)

    check()
