"""Deletion and retention reach every table and every file, whatever was made of a trace."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from end_to_end.test_alert import FELL, MISSING, RULE, Webhook, downstream, remember, webhook

from build.everything import places_of, rows_by_table
from build.otlp import payload, spans_of
from build.served import Downstream, Server, export, exporter, served
from build.served_folder import id_of, secret_trace
from suites.build.scripted_models import Answer, calling, prompt_of, serving, write_models
from suites.build.scripted_models import Server as ModelServer
from tracegrade.store.delete import delete_older
from tracegrade.store.open import open_store
from tracegrade.store.runs import Entry, add_entry
from tracegrade.store.schema import metadata
from waiting import eventually

pytestmark = pytest.mark.long

__all__ = ["downstream", "webhook"]

ARGUMENTS = {
    **RULE,
    "evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "create_order", "args": {"user_id": 1}}]}],
}
OTHER_RULES = [
    {**RULE, "id": "waits", "alert": [{"drop": {"against": "7d"}, "min_samples": 50}]},
    {**RULE, "id": "of-sessions", "scope": "session", "alert": []},
]
# What the history's traces failed of, so that ours are among those that have the reason, and are worse.
WHY = {
    "evaluation": "tool-call-args",
    "evaluator": "tool-call-args",
    "explanation": "0 of 1 expected call was made with the expected arguments; mismatched: "
    "create_order args.user_id (different), create_order args.note (unexpected).",
}


# What a model says in the run of a suite: of the trace that is deleted, and of the one that gets too old.
MODEL_SAYS = ("secret-of-case-one", "secret-of-case-two")


ENTRY = Entry(
    tenant="default", experiment="asking", id="0123456789ab", kind="judge", at_ns=1, score=0.5, configuration={}
)
FILES = {"tracegrade.db", "tracegrade.db-wal"}


class Ours:
    """Traces of one user, with values that nothing else has, and ids that nothing else is by chance."""

    def __init__(self, mark: str, number: int) -> None:
        self.secret, self.session, self.user, self.customer = (
            f"{what}-of-{mark}" for what in ("secret", "session", "user", "customer")
        )
        self.values = (self.secret, self.session, self.user, self.customer)
        chance = random.Random(mark)
        self.numbers = [chance.getrandbits(128) for _ in range(number)]
        self.ids = [id_of(number) for number in self.numbers]

    def send(self, server: Server) -> None:
        for number in self.numbers:
            spans = spans_of(secret_trace(number, self.secret, self.session, self.user))
            spans[0].attributes.add(key="app.customer").value.string_value = self.customer
            export(server.endpoints["grpc"], payload(spans))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving(say_a_secret) as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, webhook: Webhook, downstream: Downstream, model: ModelServer) -> dict[str, Any]:
    """Of a serve that alerts, tells values, knows slices, and sends everything on."""
    for rule in (ARGUMENTS, *OTHER_RULES):
        folder = tmp_path / "rules" / str(rule["id"])
        folder.mkdir(parents=True)
        (folder / "rule.yaml").write_text(json.dumps(rule))
    remember(tmp_path / "data", FELL, time.time_ns(), "demo-shop", rule_at=lambda _: ARGUMENTS, said=WHY)
    hook = {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}
    return {
        "suites": {"models": str(write_models(tmp_path, model.url))},
        "rules": {"paths": [str(tmp_path / "rules")]},
        "alerts": {"interval": "200ms", "slices": ["app.customer"], "channels": {"ops": hook}},
        "judge": {"include_values": True},
        "exporters": exporter(downstream),
    }


def do(server: Server, *command: str) -> str:
    done = server.cli(*command, "-c", str(server.config))
    assert done.exit_code == 0, done.output
    return done.stdout


def run_suite_as_job(server: Server, folder: Path) -> dict[str, str]:
    """Run a suite of two cases; the model says a secret in each. Gives the trace ids by what it said."""
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    cases = [{"prompt": f"Look up {number}", "expected_tool": "look_up"} for number in (1, 2)]
    (folder / "suite.json").write_text(json.dumps({"name": "Looking", "tools": [tool], "test_cases": cases}))
    do(server, "suite", "import", str(folder / "suite.json"))
    do(server, "suite", "run", "Looking", "--background", "--model", "m-1", "--experiment", "asking")

    def results() -> list[dict[str, Any]]:
        shown = server.cli("traces", "list", "--run", "asking/1", "--format", "json", "-c", str(server.config))
        return [json.loads(line) for line in shown.stdout.splitlines()] if shown.exit_code == 0 else []

    eventually(lambda: len(results()) == len(cases), "the run of the suite")
    eventually(
        lambda: '"done"' in server.cli("jobs", "list", "--all", "--format", "json", "-c", str(server.config)).stdout
    )
    found = {}
    for item in results():
        shown = do(server, "traces", "show", item["trace_id"], "--run", "asking/1", "--format", "json")
        said = next(secret for secret in MODEL_SAYS if secret in shown)
        found[said] = item["trace_id"]
    return found


def say_a_secret(body: dict[str, Any]) -> Answer:
    return calling(("look_up", {"what": MODEL_SAYS[int(prompt_of(body)[-1]) - 1]}))


def test_nothing_is_left_of_what_was_deleted_and_then_of_what_is_too_old(
    tmp_path: Path, webhook: Webhook, settings: dict[str, Any]
) -> None:
    engine = open_store(f"sqlite:///{tmp_path / 'data' / 'tracegrade.db'}")
    old, deleted = Ours("old", MISSING // 2), Ours("deleted", MISSING - MISSING // 2)

    def places(ours: Ours) -> dict[str, set[str]]:
        return places_of(server.data, engine, ours.values, ours.ids)

    def places_of_said(secret: str) -> dict[str, set[str]]:
        return places_of(server.data, engine, [secret], [bytes.fromhex(said[secret])])

    with served(tmp_path, **settings) as server:
        old.send(server)
        deleted.send(server)  # metrics name the latest
        eventually(lambda: webhook.posted, "the alert")
        do(server, "replay", "--experiment", "tuning")
        (tmp_path / "new.rule.yaml").write_text(json.dumps({**ARGUMENTS, "id": "judged-afterwards"}))
        do(server, "rules", "backtest", str(tmp_path / "new.rule.yaml"), "--store")
        do(server, "alerts", "silence", "service=demo-shop", "--for", "1h", "--comment", "known")
        incident = json.loads(do(server, "alerts", "list", "--format", "json").splitlines()[0])
        do(server, "alerts", "comment", incident["id"], "known")
        (tmp_path / "new.rule.yaml").write_text(json.dumps({**ARGUMENTS, "id": "new", "alert": []}))
        do(server, "rules", "backtest", str(tmp_path / "new.rule.yaml"), "--store", "--jobs", "1")
        said = run_suite_as_job(server, tmp_path)
        with engine.begin() as connection:  # by another tool: only the API takes one, and it can hold nothing of ours
            add_entry(connection, ENTRY)
        eventually(lambda: rows_by_table(engine)["waiting_alerts"], "the alert that waits")
        eventually(lambda: "published.snapshot.json" in places(deleted), "an exemplar in metrics")

        # A table without rows, or one that the schema does not name, would not be tested below.
        tables = rows_by_table(engine)
        assert tables.keys() - {"alembic_version"} == metadata.tables.keys()
        assert [table for table, rows in tables.items() if not rows] == []
        before = places(deleted)
        assert before.keys() >= {"alerts", "judge.snapshot.json"}
        for place in ("traces", "journal", "results"):
            assert before[place] == {*deleted.values, *(trace_id.hex() for trace_id in deleted.ids)}, place

        for secret in MODEL_SAYS:  # the trace alone holds it: no event of the job, and no row of it
            assert {*places_of_said(secret)} - FILES == {"traces"}
        do(server, "traces", "delete", said[MODEL_SAYS[0]], "--yes")
        do(server, "traces", "delete", "--user", deleted.user, "--yes")
        eventually(lambda: places(deleted).keys() == {"deletions/tombstones"}, "metrics without exemplars of them")
    assert places(deleted).keys() == {"deletions/tombstones"}
    left = places_of_said(MODEL_SAYS[0])
    (access_log,) = left.keys() - {"deletions/tombstones"}
    assert access_log.startswith("access/")
    assert left[access_log] == {said[MODEL_SAYS[0]]}  # who deleted which trace

    assert places_of_said(MODEL_SAYS[1]).keys() >= {"traces"}
    assert places(old).keys() >= {"alerts", "traces"}
    while delete_older(engine, time.time_ns()):
        pass
    assert places(old).keys().isdisjoint(metadata.tables)
    assert places_of_said(MODEL_SAYS[1]).keys().isdisjoint(metadata.tables)
    engine.dispose()
