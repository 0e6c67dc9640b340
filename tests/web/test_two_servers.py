"""Two servers of one store: what one is told holds at the other too, and what does not."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.types import ASGIApp

from build.asgi import call
from build.judged_traces import judged
from build.site import Site
from tracegrade.access.tokens import new_token, revoke_token
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter
from tracegrade.web.app import build_app
from waiting import eventually

TRACES = "/api/v1/traces"


@pytest.fixture
def servers(tmp_path: Path) -> list[ASGIApp]:
    """Two, each with a data folder of its own; the store and the file of tokens are both's."""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    engine = open_store(store)
    StoreWriter(engine).write([judged(1)])
    engine.dispose()
    configs = [Config.model_validate(settings_of(tmp_path, name)) for name in ("one", "other")]
    return [build_app(Site(store, RuleSet([]), config).sources) for config in configs]


def settings_of(folder: Path, name: str) -> dict[str, Any]:
    return {
        "data_dir": str(folder / name),
        "store": {"url": f"sqlite:///{folder / 'store.db'}"},
        "web": {"auth": {}},
        "access": {"tokens_file": str(folder / "tokens.json")},
    }


def statuses(servers: list[ASGIApp], secret: str) -> list[int]:
    return [call(server, "GET", TRACES, authorization=f"Bearer {secret}").status for server in servers]


def test_tokens_of_one_file_are_made_and_revoked_for_both(servers: list[ASGIApp], tmp_path: Path) -> None:
    _, secret = new_token(tmp_path / "tokens.json", "ann", ["admin"], None, None, time.time_ns())
    eventually(lambda: statuses(servers, secret) == [200, 200], "both to know the token")
    revoke_token(tmp_path / "tokens.json", "ann", time.time_ns())
    eventually(lambda: 200 not in statuses(servers, secret), "both to know that it is revoked")


def test_a_silence_holds_at_both(servers: list[ASGIApp], tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(json.dumps(settings_of(tmp_path, "one")))
    silence = ["alerts", "silence", "service=shop", "--for", "1h", "--comment", "a release"]
    made = CliRunner().invoke(main, [*silence, "-c", str(tmp_path / "one.yaml")])
    assert made.exit_code == 0, made.output
    _, secret = new_token(tmp_path / "tokens.json", "ann", ["read-values"], None, None, time.time_ns())
    eventually(lambda: statuses(servers, secret) == [200, 200], "both to know the token")
    for server in servers:
        shown = call(server, "GET", "/api/v1/silences", authorization=f"Bearer {secret}").json
        assert [silence["comment"] for silence in shown["items"]] == ["a release"]


def test_wrong_tokens_are_counted_by_each(servers: list[ASGIApp]) -> None:
    for _ in range(10):
        assert call(servers[0], "GET", TRACES, authorization="Bearer a-wrong-token-of-somebody").status == 401
    assert statuses(servers, "a-wrong-token-of-somebody") == [429, 401]
