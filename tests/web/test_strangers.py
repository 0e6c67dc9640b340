"""Every page and operation is asked by a token of another tenant: it learns nothing, not even that something is there.

The same requests go to a store that holds much of the tenant `default`, and to one that holds nothing. A token of
`globex` must get the same answers from both.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select
from starlette.types import ASGIApp

from build import each, store_with
from build.asgi import Called, call
from build.judged_traces import judged
from build.shop import GOOD, RULES, SECOND, WRONG_ORDER, fill, order
from build.shop_incidents import fall, store, store_waiting
from build.shop_runs import store_run
from build.site import Site, serving
from build.websockets import Refused, opened
from suites.build.jobs import weather
from tracegrade.access.tokens import new_token
from tracegrade.config import Config
from tracegrade.deletion.request import Choice, Deletions
from tracegrade.document.document import Document
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.heads import session_heads, trace_heads
from tracegrade.store.open import changing_store, open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.schema import metadata, rule_texts
from tracegrade.store.write import StoreWriter
from tracegrade.suites.jobs.suite_request import SuiteRequest
from tracegrade.suites.store.jobs import Job, add_job
from tracegrade.suites.store.suites import StoredSuite, save_suite
from tracegrade.web import live
from tracegrade.web.app import build_app
from web.test_rights import every_route

pytestmark = pytest.mark.usefixtures("work_done_here")

# Who reads what is live, and ends when the server does: `test_live.py` and below.
STREAMS = {"/live"}
RANGE = "since=2026-01-01T00:00:00Z&until=2036-01-01T00:00:00Z"
OWN_RULE: dict[str, Any] = {
    "id": "of-default-alone",
    "title": "In the kitchen, OPS-41",
    "match": {"tenant": "default"},
    "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"nothing": ["<=", 0]}}],
    "alert": [{"slo": {"objective": 0.9, "window": "30d"}}],
}
"""In force where there is much, and known to its tenant alone."""
MARKERS = re.compile(rb"shop|order-agent|Weather|prompts/1|talk|1\.5\.0|OPS-41|example\.org")
NUMBERS = re.compile(rb"[0-9a-f]{8,}|\d+")


@dataclass
class World:
    """One server, its tokens by tenant, and what stands for the parameters of addresses."""

    app: ASGIApp
    tokens: dict[str, str]
    names: dict[str, str]
    folder: Path

    def ask(self, who: str, method: str, address: str, body: bytes = b"") -> Called:
        kind = "application/json" if address.startswith("/api/") else "application/x-www-form-urlencoded"
        return call(
            self.app, method, address, body, authorization=f"Bearer {self.tokens[who]}", content_type=kind,
            sec_fetch_site="same-origin",
        )  # fmt: skip


def world(folder: Path, names: dict[str, str] | None = None) -> World:
    """A server over what is stored in `folder`, which is filled unless `names` are given."""
    config = Config.model_validate({"data_dir": str(folder), "web": {"auth": {}}})
    store_with(folder)
    (folder / "journal").mkdir()
    rules = load_rules([str(RULES)])
    if names is None:
        own = Document("own.rule.yaml", OWN_RULE)
        rules = RuleSet([*rules.rules, Rule.model_validate(OWN_RULE)], {**rules.documents, OWN_RULE["id"]: own})
        names = filled(folder, rules)
    with changing_store(config.store_url) as connection:  # which rules there are of all is no secret of anybody
        connection.execute(delete(rule_texts))
        save_rule_texts(connection, rules, 1)
    tokens = {}
    for tenant in ("default", "globex", "nobody"):
        tokens[tenant] = new_token(config.tokens_path, tenant, ["admin"], tenant, None, time.time_ns())[1]
    site = Site(config.store_url, rules, config)
    return World(build_app(site.sources), tokens, names, folder)


def filled(folder: Path, rules: RuleSet) -> dict[str, str]:
    now_ns = time.time_ns()
    some = [
        (order(1, now_ns - 400 * SECOND, "1.5.0", WRONG_ORDER, "talk"), "talk"),
        (order(2, now_ns - 390 * SECOND, "1.5.0", GOOD, "talk"), "talk"),
    ]
    fill(folder, iter(some), rules)
    for number in (1, 2):
        store_run(folder, rules, f"prompts/{number}", [GOOD, WRONG_ORDER], now_ns - (400 - 100 * number) * SECOND)
    incident = store(folder, fall(rules, now_ns, 1.0), silenced=True)
    store_waiting(folder, now_ns)
    suite: StoredSuite = weather(2)
    engine = open_store(store_with(folder))
    asked_for = SuiteRequest(suite=suite.id, models=["gpt"], experiment="prompts").model_dump(mode="json")
    job = Job(tenant="default", id="0123456789ab", state="failed", request=asked_for, created_ns=now_ns)
    with engine.begin() as connection:
        save_suite(connection, suite)
        add_job(connection, job)
    with reading(engine) as connection:
        trace = next(h for h in trace_heads(connection, ResultFilter(), 5) if h.session == "talk")
        (session,) = session_heads(connection, ResultFilter(), 5)
    engine.dispose()
    deletion = Deletions(folder).request(Choice(user="somebody", tenant="default"))
    return {
        "trace_id": trace.trace_id, "session_trace_id": session.trace_id, "span_id": "11" * 8,
        "rule_id": "order-steps-out-of-order", "suite_id": suite.id, "case_id": suite.cases[0].id,
        "id": "0123456789ab", "job_id": "0123456789ab", "eval_id": "0123456789ab", "experiment": "prompts",
        "experiment_id": "prompts", "run": "prompts/1", "incident_id": incident.id, "session_id": "talk",
        "silence_id": "5e1f", "user_id": "somebody", "deletion_id": deletion.id,
    }  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, full: World) -> World:
    return world(tmp_path_factory.mktemp("empty"), full.names)


def address_of(path: str, names: dict[str, str]) -> str:
    if path == "/sessions/{trace_id}":
        return f"/sessions/{names['session_trace_id']}"
    return re.sub(r"\{(\w+)(:path)?\}", lambda match: names[match[1]], path)


QUERIES = {
    "/api/v1/rates": RANGE, "/api/v1/trends": f"{RANGE}&step=1d", "/compare": "a=prompts/1&b=prompts/2&full=1",
    "/compare/traces": "a={trace_id}&b={trace_id}", "/api/v1/compare": "a=prompts/1&b=prompts/2&full=true",
    "/api/v1/runs": "experiment=prompts", "/evals/new": "again={id}",
    "/silences/new": "incident={incident_id}", "/suites/from-traces": "trace_id={trace_id}&rule={rule_id}",
    "/rules/{rule_id}/tests.zip": "trace_id={trace_id}",
}  # fmt: skip
PAGES_OF_A_TIME = {"/", "/traces", "/rules", "/rules/{rule_id}", "/alerts", "/sessions", "/ingest"}

BODIES: dict[str, Any] = {
    "PATCH /api/v1/experiments/{experiment:path}": {"baseline": "prompts/1"},
    "PATCH /api/v1/runs/{run:path}": {"labels": {"a": "b"}},
    "POST /api/v1/jobs": {"type": "suite_run", "suite": "{suite_id}", "models": ["gpt"], "experiment": "prompts"},
    "POST /api/v1/jobs/{job_id}/cancel": None,
    "POST /api/v1/jobs/{job_id}/resume": None,
    "POST /api/v1/backtests": {"rule": "{rule_text}", "since": "30d"},
    "POST /api/v1/incidents/{incident_id}/accept": None,
    "POST /api/v1/incidents/{incident_id}/acknowledge": None,
    "POST /api/v1/incidents/{incident_id}/own": None,
    "POST /api/v1/incidents/{incident_id}/comments": {"text": "mine"},
    "POST /api/v1/silences": {"labels": {"rule": "order-*"}, "incident": "{incident_id}"},
    "POST /api/tool-suites": {"name": "Own", "tools": [], "test_cases": []},
    "PUT /api/tool-suites/{suite_id}": {"description": "mine now"},
    "PATCH /api/tool-suites/{suite_id}": {"description": "mine now"},
    "POST /api/tool-suites/{suite_id}/cases": [{"prompt": "Mine?", "expected_tool": None}],
    "PUT /api/tool-suites/{suite_id}/cases/{case_id:path}": {"prompt": "Mine?"},
    "POST /api/tool-eval/import": {"name": "Own", "tools": [], "test_cases": []},
    "POST /api/tool-eval/import/mcp": {"server_url": "http://127.0.0.1:9/mcp"},
    "POST /api/tool-eval": {"suite_id": "{suite_id}", "models": ["gpt"]},
    "POST /api/tool-eval/cancel": {"job_id": "{id}"},
    "POST /api/experiments/{experiment_id}/run-best": {},
    "POST /api/experiments": {"name": "own", "suite_id": "{suite_id}"},
    "PUT /api/experiments/{experiment_id}/baseline": {"eval_id": "prompts/1"},
    "POST /api/experiments/{experiment_id}/timeline": {"type": "judge", "score": 1.0, "configuration": {}},
    "PUT /api/experiments/{experiment_id}": {"description": "mine now"},
    "POST /suites/new": "name=Own",
    "POST /suites/import": "document=%7B%22name%22%3A%22Own%22%2C%22tools%22%3A%5B%5D%2C%22test_cases%22%3A%5B%5D%7D",
    "POST /suites/import-mcp": "url=http%3A%2F%2F127.0.0.1%3A9%2Fmcp",
    "POST /suites/from-traces": "trace_ids={trace_id}&rule={rule_id}&suite={suite_id}",
    "POST /suites/{suite_id}/edit": "name=Mine",
    "POST /suites/{suite_id}/delete": "sure=yes",
    "POST /suites/{suite_id}/delete-case": "case={case_id}",
    "POST /suites/{suite_id}/new-case": "prompt=Mine&no_call=1",
    "POST /suites/{suite_id}/cases/{case_id:path}": "prompt=Mine&no_call=1",
    "POST /evals": "suite={suite_id}&models=gpt&experiment=prompts",
    "POST /evals/{id}": "action=resume",
    "POST /evals/{id}/delete": "sure=yes",
    "POST /experiments": "name=own",
    "POST /experiments/{experiment:path}": "run=prompts/1",
    "POST /runs/{run:path}": "labels=a%3Db",
    "POST /rules/{rule_id}/backtest": "text={rule_text}",
    "POST /incidents/{incident_id}/accept": "",
    "POST /incidents/{incident_id}/acknowledge": "",
    "POST /incidents/{incident_id}/own": "",
    "POST /incidents/{incident_id}/comments": "text=mine",
    "POST /silences": "rule=order-*&incident={incident_id}",
    "POST /silences/{silence_id}/end": "",
}
RULE_TEXT = json.dumps({"id": "r", "evaluate": [{"evaluator": "tool-call-count", "max": 1}]})


def body_of(method: str, path: str, names: dict[str, str]) -> bytes:
    if method == "DELETE":
        return b""
    given = BODIES[f"{method} {path}"]  # a KeyError: a new operation; say here what it is sent
    if given is None:
        return b""
    written = given if isinstance(given, str) else json.dumps(given)
    for name, value in {**names, "rule_text": json.dumps(RULE_TEXT)[1:-1]}.items():
        written = written.replace(f"{{{name}}}", value)
    return written.encode()


def asked(path: str, names: dict[str, str]) -> str:
    query = QUERIES.get(path, RANGE if path in PAGES_OF_A_TIME else "")
    for name, value in names.items():
        query = query.replace(f"{{{name}}}", value)
    if path == "/api/v1/traces" or path.startswith("/api/v1/traces?"):
        query = ""
    return address_of(path, names) + (f"?{query}" if query else "")


def ways(address: str) -> Iterator[str]:
    """The address as it is, and naming the tenant whose data is there."""
    yield address
    yield f"{address}{'&' if '?' in address else '?'}tenant=default"


def told(answer: Called) -> tuple[int, bytes]:
    return answer.status, NUMBERS.sub(b"N", answer.body)


# Where rules are shown, which all tenants share, or an example of ours.
OF_ALL = {"/", "/rules", "/rules/{rule_id}", "/api/v1/rules", "/api/v1/rules/{rule_id:path}", "/alerts", "/compare",
          "/api/tool-eval/import/example"}  # fmt: skip
READ = [param for param in every_route() if "GET" in param.values[1] and param.values[0] not in STREAMS]
WRITE = [param for param in every_route() if param.values[1] & {"POST", "PUT", "PATCH", "DELETE"}]


@each(("path", "methods", "route"), READ)
def test_reading_another_tenants_is_as_reading_nothing(
    full: World, empty: World, path: str, methods: set[str], route: Any
) -> None:
    for address in ways(asked(path, full.names)):
        there, nowhere = (one.ask("globex", "GET", address) for one in (full, empty))
        assert told(there) == told(nowhere), address
        echoed = MARKERS.findall(address.encode())
        found = [word for word in MARKERS.findall(there.body) if word not in echoed]
        assert not found or path in OF_ALL, address


@each(("path", "methods", "route"), READ)
def test_who_it_belongs_to_reads_it(full: World, path: str, methods: set[str], route: Any) -> None:
    """The requests above ask for what is there."""
    answer = full.ask("default", "GET", asked(path, full.names))
    accepted = {200}
    if path in ("/traces/{trace_id}/spans/{span_id}", "/api/tool-eval/history/{eval_id:path}"):
        accepted = {200, 404}  # spans and evals have ids of their own
    assert answer.status in accepted, answer.body[:500]


@pytest.mark.parametrize("address", ["/rules/{}", "/api/v1/rules/{}", f"/traces/{'1' * 32}/tests/{{}}.zip"])
def test_a_rule_of_another_tenant_is_as_one_that_is_not_there(full: World, address: str) -> None:
    own, none = (address.format(name) for name in (OWN_RULE["id"], "of-somebody-else"))
    there, nowhere = full.ask("globex", "GET", own), full.ask("globex", "GET", none)
    assert (there.status, there.body.replace(OWN_RULE["id"].encode(), b"of-somebody-else")) == (
        nowhere.status,
        nowhere.body,
    )
    assert there.status == 404
    if "traces" not in address:
        assert full.ask("default", "GET", own).status == 200


def test_a_former_text_that_was_of_another_tenant_is_not_shown(full: World) -> None:
    """Now it is a rule of all; what it said before was its tenant's."""
    rule_id = "was-of-default"
    former = Rule.model_validate({**OWN_RULE, "id": rule_id})
    now = Rule.model_validate({**OWN_RULE, "id": rule_id, "match": {}, "title": "Of all"})
    with changing_store(f"sqlite:///{full.folder / 'tracegrade.db'}") as connection:
        save_rule_texts(connection, RuleSet([former]), 2)
        save_rule_texts(connection, RuleSet([now]), 3)
    for who, sees in (("default", True), ("globex", False)):
        page = full.ask(who, "GET", f"/rules/{rule_id}")
        assert (page.status, b"OPS-41" in page.body) == (200, sees)
    with changing_store(f"sqlite:///{full.folder / 'tracegrade.db'}") as connection:
        connection.execute(delete(rule_texts).where(rule_texts.c.rule_id == rule_id))


@pytest.fixture
def before(full: World) -> dict[str, Any]:
    return contents(full.folder)


@each(("path", "methods", "route"), WRITE)
def test_changing_another_tenants_is_as_changing_nothing(
    full: World, empty: World, before: dict[str, Any], path: str, methods: set[str], route: Any
) -> None:
    (method,) = methods & {"POST", "PUT", "PATCH", "DELETE"}
    address, body = asked(path, full.names), body_of(method, path, full.names)
    if path == "/api/v1/traces":
        address += "?before=2026-01-01T00:00:00Z"
    for way in ways(address):
        there, nowhere = (one.ask("globex", method, way, body) for one in (full, empty))
        assert told(there) == told(nowhere), way
        if "tenant=default" in way:
            assert there.status in (400, 404), way
    assert contents(full.folder) == before


def contents(folder: Path) -> dict[str, Any]:
    """What the tenant `default` has."""
    engine = open_store(f"sqlite:///{folder / 'tracegrade.db'}", read_only=True)
    with reading(engine) as connection:
        found = {
            name: sorted(map(repr, connection.execute(select(table).where(table.c.tenant == "default"))))
            for name, table in metadata.tables.items()
            if "tenant" in table.c
        }
    engine.dispose()
    return found


@pytest.fixture(scope="module")
def served(full: World) -> Iterator[Site]:
    config = Config.model_validate({"data_dir": str(full.folder), "web": {"auth": {}}})
    with serving(full.folder, str(RULES), config=config) as site:
        yield site


@pytest.mark.parametrize("query", ["?tenant=default", "?job=0123456789ab", "?tenant=default&job=0123456789ab"])
def test_a_websocket_for_another_tenants_jobs_is_refused(full: World, served: Site, query: str) -> None:
    with (
        pytest.raises(Refused) as refused,
        opened(served.url, f"/ws{query}", authorization=f"Bearer {full.tokens['globex']}"),
    ):
        pass
    assert refused.value.status == 404


def test_a_websocket_without_a_tenant_tells_of_its_own_jobs_alone(full: World, served: Site) -> None:
    engine = open_store(served.store_url)
    with opened(served.url, "/ws", authorization=f"Bearer {full.tokens['globex']}") as client:
        for tenant in ("default", "globex"):
            job = Job(tenant=tenant, id=f"of-{tenant}", request={}, created_ns=time.time_ns())
            with engine.begin() as connection:
                add_job(connection, job)
        assert client.read()["job_id"] == "of-globex"
    engine.dispose()


def test_new_results_of_others_are_not_told(full: World, served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.02)
    newest = live.NewestOfEach()
    of_all, of_one = newest.of(served.sources), newest.of(replace(served.sources, tenant="globex"))

    async def marks() -> tuple[str, str, str]:
        first, all_of_it = await of_one.after(""), await of_all.after("")
        engine = open_store(served.store_url)
        StoreWriter(engine).write([judged(99)])
        engine.dispose()
        await asyncio.wait_for(of_all.after(all_of_it), 600)
        return first, all_of_it, of_one._mark()

    first, all_of_it, after = asyncio.run(marks())
    assert first == after != all_of_it
